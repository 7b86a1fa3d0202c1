package fastpath_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/pin"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/manypods"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A daemon can be replaced as soon as it carries a pod, while others may wait for their programs.
// The next one exchanges what is attached, with no moment between.
func TestManyPods(t *testing.T) {
	const pods = 60
	n := newNode(t, fastpath.Routed, pods, 3)
	first := n.serve(t)
	eventually(t, "a pod is carried", func() bool {
		s := n.state()
		return s.Off == "" && s.Pods > 0
	})
	heir := n.serve(t, "--replace")
	must(t, first.Wait())
	n.carrying(t)
	before := n.programs(t)
	if len(before) != 2*pods+2 {
		t.Fatalf("%d programs are attached, want %d", len(before), 2*pods+2)
	}
	last := n.serve(t, "--replace")
	must(t, heir.Wait())
	eventually(t, "the last daemon has taken over", func() bool { return n.exchanged(t, before) })
	n.carrying(t)
	after := n.programs(t)
	for pin, was := range before {
		if is := after[pin]; is.link != was.link {
			t.Errorf("%s is another link now: %+v, was %+v", pin, is, was)
		}
	}
	gone := filepath.Join(n.Pins, fmt.Sprintf("from_pod_%d", n.index(t, "pod7")))
	must(t, os.Remove(gone))
	eventually(t, "what was detached is attached again", func() bool {
		_, err := os.Lstat(gone)
		return err == nil
	})
	last.end(t)
	if left, err := bpf.Attached(n.Pins); len(left) > 0 || err != nil {
		t.Errorf("left attached: %v (%v)", left, err)
	}
	testenv.Shell(t, n.Netns.Path(), "! tc qdisc show | grep clsact >&2")
	must(t, os.Remove(n.State))
	last = n.serve(t)
	n.carrying(t)
	n.inOrder(t)
	last.end(t)
}

// What another version has attached, under a name that this one does not know, is detached when this one takes
// over: nothing is attached in its place, not even for a moment.
func TestUnknownPrograms(t *testing.T) {
	if !kernel.HasTCX() {
		t.Skip("this kernel has no tcx")
	}
	n := newNode(t, fastpath.VXLAN, 2, 3)
	first := n.serve(t)
	n.carrying(t)
	tunnel := n.index(t, "tunnel")
	pin := func(name string) string { return filepath.Join(n.Pins, fmt.Sprintf("%s_%d", name, tunnel)) }
	must(t, os.Rename(pin("from_tunnel"), pin("from_future")))
	held, err := link.LoadPinnedLink(pin("from_future"), nil)
	must(t, err)
	defer held.Close()
	before, err := held.Info()
	must(t, err)
	p, err := ebpf.NewProgramFromID(before.Program)
	must(t, err)
	defer p.Close()
	filters := []string{pin("to_future"), filepath.Join(n.Pins, "future")}
	for _, filter := range filters {
		must(t, kernel.AttachProgram(n.Netns, p, tunnel, kernel.FilterEgress, filter))
	}
	last := n.serve(t, "--replace")
	must(t, first.Wait())
	eventually(t, "what is not known is detached", func() bool {
		left, err := kernel.Filters(n.Netns, n.Pins)
		must(t, err)
		return len(left) == 0 && !slices.ContainsFunc(append(filters, pin("from_future")), func(pin string) bool {
			_, err := os.Lstat(pin)
			return !os.IsNotExist(err)
		})
	})
	after, err := held.Info()
	must(t, err)
	if after.Program != before.Program || after.TCX().Ifindex != 0 {
		t.Errorf("the link was of program %d, and is of %d at device %d", before.Program, after.Program, after.TCX().Ifindex)
	}
	last.end(t)
}

// The first pods are carried before the others are looked at, and the network's tables are not read
// again for these.
func TestFirstPods(t *testing.T) {
	const pods = fastpath.FirstPods + 5
	n := newNode(t, fastpath.VXLAN, pods, 3)
	n.awaitDevices(t)
	fast, err := bpf.New(bpf.VXLAN, bpf.Options{}, manypods.Port)
	must(t, err)
	t.Cleanup(fast.Close)
	must(t, kernel.MountPins(n.Pins))
	var states []fastpath.State
	var reads int
	testenv.InNetns(t, n.Netns.Path(), func() (err error) {
		states, reads, err = fastpath.StartStates(&n.Config, n.Netns, fast)
		return err
	})
	if reads > 0 {
		t.Errorf("the network was read %d times again", reads)
	}
	if s := states[0]; s.Off != "" || s.Pods != 0 || s.Waiting != pods {
		t.Errorf("before anything is attached: %+v", s)
	}
	if s := states[len(states)-1]; s.Off != "" || s.Pods != pods || s.Waiting != 0 {
		t.Errorf("at last: %+v", s)
	}
	first := slices.IndexFunc(states, func(s fastpath.State) bool { return s.Pods > 0 })
	if first < 0 || states[first].Pods != 1 || states[first].Waiting != pods-1 {
		t.Errorf("nobody was told of the first pod alone, before all were looked at: %+v", states)
	}
}

// inOrder checks that the wire's programs were attached first, and each pod's together.
func (n node) inOrder(t *testing.T) {
	t.Helper()
	at := func(name string, device int) time.Time {
		info, err := os.Stat(filepath.Join(n.Pins, fmt.Sprintf("%s_%d", name, device)))
		must(t, err)
		return info.ModTime()
	}
	wire := n.index(t, "wire")
	begun := at("from_wire", wire)
	for _, pod := range n.Devices.Pods {
		device := n.index(t, pod)
		in, out := at("to_pod", device), at("from_pod", device)
		if in.Before(begun) || out.Before(in) {
			t.Errorf("programs of %s were attached at %v and %v, the wire's at %v", pod, in, out, begun)
		}
		begun = out
	}
}

// pinned is what a pin holds: the link of a program, or the program of a filter.
type pinned struct {
	link    link.ID // 0: a filter
	program ebpf.ProgramID
}

// programs are those of a node's pins.
func (n node) programs(t *testing.T) map[string]pinned {
	t.Helper()
	pins, err := bpf.Attached(n.Pins)
	must(t, err)
	all := map[string]pinned{}
	for _, name := range pins {
		by, err := pin.Load(name, nil)
		must(t, err)
		var is pinned
		switch by := by.(type) {
		case link.Link:
			info, err := by.Info()
			must(t, err)
			is = pinned{info.ID, info.Program}
		case *ebpf.Program:
			info, err := by.Info()
			must(t, err)
			is.program, _ = info.ID()
		}
		must(t, by.Close())
		all[strings.TrimPrefix(name, n.Pins)] = is
	}
	return all
}

// exchanged tells whether all pins have other programs than they had.
func (n node) exchanged(t *testing.T, before map[string]pinned) bool {
	t.Helper()
	for pin, is := range n.programs(t) {
		if is.program == before[pin].program {
			return false
		}
	}
	return true
}

// A shadow leaves nothing to a tunnel's device that is to be carried from there.
func TestProgramsAtTunnel(t *testing.T) {
	for shadow, want := range map[bool][]string{false: {"to_tunnel", "from_tunnel"}, true: {"to_tunnel"}} {
		if got := fastpath.ProgramsAtTunnel(&fastpath.Config{Kind: fastpath.VXLAN, Shadow: shadow}); !slices.Equal(got, want) {
			t.Errorf("shadow %v: %q, want %q", shadow, got, want)
		}
	}
}
