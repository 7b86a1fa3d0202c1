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
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// While nothing is carried, what changes without notification is polled less often; all of it is
// looked at when something is carried again.
func TestIdlePolls(t *testing.T) {
	fast, n := newFast(t), space(t)
	c := &fastpath.Config{Kind: fastpath.Routed, Pins: t.TempDir(), State: filepath.Join(t.TempDir(), "state")}
	carried := make([]bpf.Counter, ebpf.MustPossibleCPU())
	testenv.InNetns(t, n.Path(), func() error {
		poll, end, err := fastpath.Poller(c, n, fast)
		if err != nil {
			return err
		}
		defer end()
		for round := range 2 {
			carried[0].Packets++
			must(t, fast.Counts.Put(uint32(bpf.CarriedIn), carried))
			busy, full, err := poll()
			must(t, err)
			if round > 0 && full == 0 {
				t.Error("nobody looks for programs that came while nothing was carried")
			}
			for i := range fastpath.IdleAfter {
				next, _, err := poll()
				must(t, err)
				if idle := next > busy; idle != (i == fastpath.IdleAfter-1) {
					t.Fatalf("after %d polls without a packet, the next one is in %v; with packets it was in %v", i+1, next, busy)
				}
			}
		}
		return nil
	})
}

// What many devices announce, and what concerns no packet, has nobody read the network again.
func TestIdleReads(t *testing.T) {
	const pods = 20
	n := newNode(t, fastpath.VXLAN, pods, pods)
	fast, err := bpf.NewVXLAN(bpf.Options{}, tunnelPort)
	must(t, err)
	t.Cleanup(fast.Close)
	must(t, kernel.MountPins(n.Pins))
	var reads, mtu atomic.Int64
	_, _, end := followBy(t, &n.Config, fast, n.netns, func() (topology.Topology, error) {
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
		fmt.Fprintf(&host, "ip neigh replace %v lladdr %v dev br0 nud permanent\n", addrIn(podNetwork, i), macIn(podNetwork, i))
		fmt.Fprintf(&inPods, "ip link set %s promisc on; ip link set %s mtu 1500\n", name, name)
	}
	testenv.Shell(t, n.netns.Path(), host.String())
	testenv.Shell(t, n.pods.Name(), inPods.String())
	if got := calm() - before; got > 0 {
		t.Errorf("the network was read %d times, though nothing had changed", got)
	}
	testenv.Shell(t, n.pods.Name(), fmt.Sprintf("ip link set %s mtu 1400", n.Devices.Pods[0]))
	eventually(t, "the pod's MTU is known", func() bool { return mtu.Load() == 1400 })
	must(t, end())
}
