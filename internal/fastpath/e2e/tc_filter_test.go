package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	vnl "github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
	"github.com/venturi-net/venturi/internal/vm"
)

// A fast path whose programs are tc filters: what somebody takes away with their qdisc
// is put back, another version's are exchanged, and nothing of them stays in the end.
func TestFastPathOfFilters(t *testing.T) {
	requireFastPath(t)
	l := testenv.Lab(t, lab.Options{Paths: tcFilterPaths[:1]})
	arm, m := l.Arms[0], l.Machines[0]
	config, err := fastpath.Load(filepath.Join(filepath.Dir(arm.Pins[0]), "fast.json"))
	testenv.Must(t, err)
	const devices = 3
	if found := clsacts(t, m); len(found) != devices {
		t.Errorf("clsact is at %v, want it at a pod's device, the tunnel's and the wire", found)
	}
	// clsact and ingress have one place.
	onPod := func(do func(at vnl.QdiscAttrs) error) {
		testenv.InNetns(t, m.Namespace, func() error {
			pod, err := vnl.LinkByName(config.Devices.Pods[0])
			if err != nil {
				return err
			}
			return do(vnl.QdiscAttrs{LinkIndex: pod.Attrs().Index, Parent: vnl.HANDLE_INGRESS})
		})
	}
	fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) {
		fastpathtest.WaitCarried(t, arm, exchange)
		onPod(func(at vnl.QdiscAttrs) error { return vnl.QdiscDel(&vnl.Clsact{QdiscAttrs: at}) })
		eventually(t, "clsact is there again", func() bool { return len(clsacts(t, m)) == devices })
		before := fastpathtest.CarriedPackets(t, arm)
		eventually(t, "a pod's packets are carried again", func() bool {
			_ = exchange(time.Millisecond) // one that is sent while the qdisc comes is lost
			return fastpathtest.CarriedPackets(t, arm)[0] > before[0]+100
		})

		killDaemon(t, l, arm)
		before = fastpathtest.CarriedPackets(t, arm)
		layout := filepath.Join(arm.Pins[0], "layout")
		testenv.Must(t, errors.Join(os.Remove(layout), os.Symlink("another", layout)))
		next, said := startDaemon(t, l, arm)
		eventually(t, "the next daemon has begun anew", func() bool {
			testenv.Must(t, exchange(testenv.Timeout))
			stats, err := fastpath.ReadStats(arm.Pins[0])
			return err == nil && stats[bpf.CarriedOut].Packets < before[0]
		})
		fastpathtest.WaitCarried(t, arm, exchange)
		stopDaemon(t, next, said)
		if left := clsacts(t, m); len(left) > 0 {
			t.Errorf("clsact is left at %v", left)
		}
		if left := attachedTo(t, arm); len(left) > 0 {
			t.Errorf("left attached: %v", left)
		}

		// Where ingress is, there is no place for clsact.
		onPod(func(at vnl.QdiscAttrs) error { return vnl.QdiscAdd(&vnl.Ingress{QdiscAttrs: at}) })
		next, said = startDaemon(t, l, arm)
		eventually(t, "the daemon says so", func() bool {
			_ = exchange(time.Millisecond) // as above
			refused := stateOf(t, arm).Refused
			return len(refused) == 1 && strings.Contains(refused[0].Reason, "discipline ingress")
		})
		onPod(func(at vnl.QdiscAttrs) error { return vnl.QdiscDel(&vnl.Ingress{QdiscAttrs: at}) })
		eventually(t, "a pod's packets are carried once ingress has gone", func() bool {
			_ = exchange(time.Millisecond) // as above
			stats, err := fastpath.ReadStats(arm.Pins[0])
			return err == nil && stats[bpf.CarriedOut].Packets > 100
		})
		stopDaemon(t, next, said)
	})
}

// clsacts lists the devices of a machine that have the queueing discipline clsact.
func clsacts(t *testing.T, m lab.Machine) (devices []string) {
	t.Helper()
	testenv.InNetns(t, m.Namespace, func() error {
		all, err := vnl.QdiscList(nil)
		for _, q := range all {
			if q.Type() != "clsact" {
				continue
			}
			device, failed := vnl.LinkByIndex(q.Attrs().LinkIndex)
			if failed != nil {
				return failed
			}
			devices = append(devices, device.Attrs().Name)
		}
		return err
	})
	return devices
}

// Before Linux 6.6 there is no tcx, and before 6.2 programs cannot read the kernel's own
// structure of a packet without a call: the fast path does without either, for both versions of IP.
func TestFastPathOfOlderKernel(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	agenttest.UnderKernels(t, "6.1", func(t *testing.T, k kernel.Kernel) {
		said, code := agenttest.RunInGuest(t, vm.Config{Kernel: k, Memory: 3 << 10}, agenttest.RunArgs("TestFastPathObeysNewRules|TestFastPathCarriesIPv6"))
		for _, test := range []string{"TestFastPathObeysNewRules/vxlan+fast", "TestFastPathCarriesIPv6"} {
			if code != 0 || !strings.Contains(said, "--- PASS: "+test) {
				t.Errorf("%s: it ended with code %d:\n%s", test, code, said)
			}
		}
	})
}
