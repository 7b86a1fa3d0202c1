package fastpath_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/venturi-net/venturi/internal/testenv"
)

func epochNow(t *testing.T, fast *bpf.Objects) (epoch uint32) {
	t.Helper()
	must(t, fast.Epoch.Get(&epoch))
	return epoch
}

// News end what was learned when they come in, and not when they are seen to; those of
// neighbours, if packets are carried to them, which may be found out later.
func TestInbox(t *testing.T) {
	fast := newFast(t)
	box, err := fastpath.NewEventQueue(fast)
	must(t, err)
	const rules, topo = topology.RulesChanged, topology.TopologyChanged
	hop := topology.Neighbour{Device: 7, Addr: netip.MustParseAddr("10.0.0.1")}
	pod := topology.Neighbour{Device: 8, Addr: netip.MustParseAddr("10.0.0.2")}
	end := topology.PodEnd{NSID: 3, Index: 2, MTU: 1500}
	smaller, elsewhere := end, end
	smaller.MTU, elsewhere.NSID = 1400, 4
	announce := func(e topology.PodEnd) func() {
		return func() { box.Push(topology.Event{Changes: topo, PodEnd: e}) }
	}
	known := topology.Topology{Pods: []topology.LocalPod{{NeighDevice: pod.Device, Addr: pod.Addr, PodEnd: end}}, NextHops: []topology.NextHop{{Device: 9, WireDevice: hop.Device, Addr: hop.Addr}}}
	put := func(c topology.Changes, n topology.Neighbour) func() {
		return func() { box.Push(topology.Event{Changes: c, Neighbour: n}) }
	}
	many := func(n int) {
		for index := range n {
			announce(topology.PodEnd{NSID: 9, Index: index, MTU: 1500})()
		}
	}
	for _, step := range []struct {
		what   string
		do     func()
		raised uint32
		found  topology.Changes // when it is emptied then
	}{
		{"nothing", func() {}, 0, 0},
		{"a device", put(topo, topology.Neighbour{}), 0, topo},
		{"rules, twice, and a device", func() {
			put(rules, topology.Neighbour{})()
			put(rules, topology.Neighbour{})()
			put(topo, topology.Neighbour{})()
		}, 2, rules | topo},
		{"rules, twice, and a device, read together", func() {
			box.Push(topology.Event{Changes: rules}, topology.Event{Changes: topo}, topology.Event{Changes: rules})
		}, 1, rules | topo},
		{"a neighbour that nobody goes to", put(rules|topo, hop), 0, topo},
		{"the topology, which leads to it", func() { box.SetTopology(known) }, 0, 0},
		{"the hop to a peer", put(rules|topo, hop), 1, rules | topo},
		{"a neighbour of a tunnel's device", put(rules|topo, topology.Neighbour{Device: 9, Addr: pod.Addr}), 1, rules | topo},
		{"a pod", put(rules|topo, pod), 1, rules | topo},
		{"two pods, another neighbour and a pod's end, read together", func() {
			box.Push(topology.Event{Changes: rules, Neighbour: pod}, topology.Event{Changes: rules, Neighbour: pod},
				topology.Event{Changes: rules, Neighbour: topology.Neighbour{Device: 8, Addr: hop.Addr}}, topology.Event{Changes: topo, PodEnd: end})
		}, 1, rules},
		{"a pod's end, as it is, and another neighbour, read together", func() {
			box.Push(topology.Event{Changes: topo, PodEnd: end}, topology.Event{Changes: rules | topo, Neighbour: topology.Neighbour{Device: 8, Addr: hop.Addr}})
		}, 0, topo},
		{"another neighbour", put(rules|topo, topology.Neighbour{Device: 8, Addr: hop.Addr}), 0, topo},
		{"a pod that was found while the topology was read", func() {
			box.SetTopology(topology.Topology{})
			put(rules|topo, pod)()
			box.SetTopology(known)
		}, 1, rules | topo},
		{"a pod's end, as it is", announce(end), 0, 0},
		{"a device with the same index in another namespace", announce(elsewhere), 0, 0},
		{"a pod's end that has changed", announce(smaller), 0, topo},
		{"a pod's end that has changed while the topology was read", func() {
			box.SetTopology(topology.Topology{})
			announce(smaller)()
			box.SetTopology(known)
		}, 0, topo},
		{"a pod's end that has changed and changed back meanwhile", func() {
			box.SetTopology(topology.Topology{})
			announce(smaller)()
			announce(end)()
			box.SetTopology(known)
		}, 0, 0},
		{"as many other pods' ends as are kept", func() { many(fastpath.MaxPodEnds) }, 0, 0},
		{"more of them than are kept", func() { many(fastpath.MaxPodEnds + 1) }, 0, topo},
	} {
		before := epochNow(t, fast)
		step.do()
		if raised := epochNow(t, fast) - before; raised != step.raised {
			t.Errorf("%s: the epoch was raised by %d, want %d", step.what, raised, step.raised)
		}
		if found, err := box.Drain(); found != step.found || err != nil {
			t.Errorf("%s: changed is %b, want %b (%v)", step.what, found, step.found, err)
		}
	}
}

// follow runs a daemon in a namespace of its own that reads the topology as it is told to. It
// gives the daemon's inbox and state, and what to end it by, which gives its error.
func follow(t *testing.T, fast *bpf.Objects, n *netcfg.Namespace, read func() (topology.Topology, error)) (box *fastpath.EventQueue, off func() string, end func() error) {
	t.Helper()
	c := &fastpath.Config{Kind: fastpath.VXLAN, Port: 4789, Pins: t.TempDir(), State: filepath.Join(t.TempDir(), "state")}
	return followBy(t, c, fast, n, read)
}

// followBy does so with a configuration.
func followBy(t *testing.T, c *fastpath.Config, fast *bpf.Objects, n *netcfg.Namespace, read func() (topology.Topology, error)) (box *fastpath.EventQueue, off func() string, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	given, done := make(chan *fastpath.EventQueue, 1), make(chan error, 1)
	go func() {
		done <- host.Do(n.Path(), func() error { return fastpath.Follow(ctx, c, n, fast, given, read) })
	}()
	select {
	case box = <-given:
	case err := <-done:
		t.Fatal(err)
	}
	off = func() string {
		s, err := fastpath.ReadState(c.State)
		must(t, err)
		return s.Off
	}
	return box, off, func() error {
		cancel()
		return <-done
	}
}

// Rules that change while the daemon is at something else end what was learned at
// once, each time that they do; and are looked at when it is done.
func TestNewsWhileBusy(t *testing.T) {
	fast, n := newFast(t), space(t)
	busy, done := make(chan bool), make(chan bool)
	var first sync.Once
	_, off, end := follow(t, fast, n, func() (topology.Topology, error) {
		first.Do(func() {
			close(busy)
			<-done
		})
		return topology.Topology{}, nil
	})
	goOn := sync.OnceFunc(func() { close(done) })
	defer goOn()
	<-busy
	for range 2 {
		before := epochNow(t, fast)
		allow := testenv.Forbid(t, n.Path())
		eventually(t, "the epoch is raised", func() bool { return epochNow(t, fast) > before })
		before = epochNow(t, fast)
		allow()
		eventually(t, "it is raised once more", func() bool { return epochNow(t, fast) > before })
	}
	testenv.Lose(t, n.Path(), 2)
	goOn()
	defer func() {
		if t.Failed() {
			t.Logf("nothing is carried because: %q", off())
		}
	}()
	eventually(t, "the last rule is read", func() bool { return strings.Contains(off(), "may differ between packets") })
	must(t, end())
}

// Where the kernel's tables change while they are read, nothing is carried, and what was
// learned ends, until they have been read; any other error ends the daemon.
func TestInterrupted(t *testing.T) {
	fast, n := newFast(t), space(t)
	var fails atomic.Pointer[error]
	var reads atomic.Int32
	box, off, end := follow(t, fast, n, func() (topology.Topology, error) {
		reads.Add(1)
		if err := fails.Load(); err != nil {
			return topology.Topology{}, *err
		}
		return topology.Topology{}, nil
	})
	carries := func(want bool) {
		t.Helper()
		eventually(t, fmt.Sprintf("something is carried: %v", want), func() bool {
			var deadline uint64
			must(t, fast.Deadline.Get(&deadline))
			return (off() == "") == want && (deadline > 0) == want
		})
	}
	carries(true)
	for range 2 {
		before, torn := epochNow(t, fast), fmt.Errorf("list devices: %w", nlmsg.ErrInterrupted)
		fails.Store(&torn)
		box.Push(topology.Event{Changes: topology.TopologyChanged})
		carries(false)
		if epochNow(t, fast) == before {
			t.Error("what was learned holds")
		}
		tried := reads.Load()
		eventually(t, "it has tried again, twice", func() bool { return reads.Load() >= tried+2 })
		carries(false)
		fails.Store(nil)
		carries(true)
	}
	other := errors.New("no memory")
	tried := reads.Load()
	fails.Store(&other)
	box.Push(topology.Event{Changes: topology.TopologyChanged})
	eventually(t, "it has tried", func() bool { return reads.Load() > tried })
	if err := end(); !errors.Is(err, other) {
		t.Errorf("it ended with %v", err)
	}
}
