package fastpath_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/manypods"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// While nothing is carried, what changes without notification is polled with heartbeats only; all of
// it is looked at as soon as something is carried again.
func TestIdlePolls(t *testing.T) {
	fast, n := newFast(t), space(t)
	c := &fastpath.Config{Kind: fastpath.Routed, Pins: t.TempDir(), State: filepath.Join(t.TempDir(), "state")}
	carried := make([]bpf.Counter, ebpf.MustPossibleCPU())
	testenv.InNetns(t, n.Path(), func() error {
		d, end, err := fastpath.NewPolling(c, n, fast)
		if err != nil {
			return err
		}
		defer end()
		for round := range 2 {
			carried[0].Packets++
			must(t, fast.Counts.Put(uint32(bpf.CarriedIn), carried))
			busy, err := d.Look()
			must(t, err)
			if !busy.All || round > 0 && busy.Full == 0 {
				t.Errorf("with packets again, the daemon did %+v: it has to poll all", busy)
			}
			if beat, err := d.Heartbeat(); err != nil || beat.All {
				t.Errorf("a heartbeat polls while looks do, error %v", err)
			}
			for i := range fastpath.IdleAfter {
				quiet, err := d.Look()
				must(t, err)
				last := i == fastpath.IdleAfter-1
				if quiet.All == last || (quiet.Next > busy.Next) != last {
					t.Fatalf("after %d looks without a packet, the daemon did %+v; with packets %+v", i+1, quiet, busy)
				}
			}
			if beat, err := d.Heartbeat(); err != nil || !beat.All {
				t.Errorf("no heartbeat polls while looks do not, error %v", err)
			}
		}
		return nil
	})
}

// Pods are probed less often while nothing is carried, and often enough for their bridge, which
// forgets them otherwise.
func TestProbeInterval(t *testing.T) {
	for _, c := range []struct {
		resting bool
		ageing  time.Duration
		want    uint32
	}{
		{false, 300 * time.Second, 30}, {true, 300 * time.Second, 120}, {true, 100 * time.Second, 50},
		{true, 20 * time.Second, 30}, {true, 0, 30}, {true, 100 * time.Hour, 120},
	} {
		if got := fastpath.ProbeInterval(c.resting, c.ageing); got != c.want {
			t.Errorf("resting %v, ageing %v: all are probed in %d ticks, want %d", c.resting, c.ageing, got, c.want)
		}
	}
}

// What many devices announce, and what concerns no packet, has nobody read the network again.
func TestIdleReads(t *testing.T) {
	const pods = 20
	n := newNode(t, fastpath.VXLAN, pods, pods)
	fast, err := bpf.New(bpf.VXLAN, bpf.Options{}, manypods.Port)
	must(t, err)
	t.Cleanup(fast.Close)
	must(t, kernel.MountPins(n.Pins))
	var reads, mtu atomic.Int64
	_, _, end := followBy(t, &n.Config, fast, n.Netns, func() (topology.Topology, error) {
		reads.Add(1)
		topo, err := topology.Read(n.Devices, func(uint32) bool { return false })
		if len(topo.Pods) == pods {
			mtu.Store(int64(topo.Pods[0].PodEnd.MTU))
		}
		return topo, err
	})
	calm := func() int64 {
		t.Helper()
		last, since := reads.Load(), time.Now()
		eventually(t, "the devices are up, and nobody reads the network", func() bool {
			if now := reads.Load(); now != last {
				last, since = now, time.Now()
			}
			return mtu.Load() != 0 && time.Since(since) > 2*time.Second // the kernel announces carriers once a second
		})
		return last
	}
	before := calm()
	var host, inPods strings.Builder
	for i, name := range n.Devices.Pods {
		for _, device := range []string{"wire", name} {
			fmt.Fprintf(&host, "ip link set %s promisc on; ip link set %s promisc off\n", device, device)
		}
		fmt.Fprintf(&host, "ip neigh replace %v lladdr %v dev br0 nud permanent\n", manypods.PodAddr(i), manypods.PodMAC(i))
		fmt.Fprintf(&inPods, "ip link set %s promisc on; ip link set %s mtu 1500\n", name, name)
	}
	testenv.Shell(t, n.Netns.Path(), host.String())
	testenv.Shell(t, n.Ends.Path(), inPods.String())
	if got := calm() - before; got > 0 {
		t.Errorf("the network was read %d times, though nothing had changed", got)
	}
	testenv.Shell(t, n.Ends.Path(), fmt.Sprintf("ip link set %s mtu 1400", n.Devices.Pods[0]))
	eventually(t, "the pod's MTU is known", func() bool { return mtu.Load() == 1400 })
	must(t, end())
}
