package e2e

import (
	"fmt"
	"testing"
	"time"

	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// A pod is known before it has sent anything, and stays known when its bridge forgets
// it: its packets must not have to go slow for that.
func TestFastPathFindsSilentPods(t *testing.T) {
	requireFastPath(t)
	l := testenv.Lab(t, lab.Options{Paths: []string{"vxlan+fast"}})
	arm := l.Arms[0]
	for i, m := range l.Machines {
		known := func() bool {
			state, err := fastpath.ReadState(fastpath.StateFile(arm.Pins[i]))
			testenv.Must(t, err)
			return state.Pods == 1
		}
		if !known() {
			t.Fatalf("%s does not know its pod", m.Name)
		}
		port, mac := fmt.Sprintf("veth%d.0", 0), ""
		testenv.InNetns(t, m.Namespace, func() error {
			mac = neighbourAt(t, arm.Ends[i][0].Addr).HardwareAddr.String()
			return runScript("bridge fdb del " + mac + " dev " + port + " master")
		})
		for end := time.Now().Add(testenv.Timeout); ; time.Sleep(10 * time.Millisecond) {
			if placedMAC(t, m, mac) && known() {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("after %v %s does not know its pod again", testenv.Timeout, m.Name)
			}
		}
	}
	fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) { fastpathtest.WaitCarried(t, arm, exchange) })
}

// placedMAC tells whether a bridge of a machine knows where a MAC is.
func placedMAC(t *testing.T, m lab.Machine, mac string) (is bool) {
	t.Helper()
	testenv.InNetns(t, m.Namespace, func() error {
		all, err := vnl.NeighList(0, unix.AF_BRIDGE)
		for _, n := range all {
			is = is || n.MasterIndex != 0 && n.HardwareAddr.String() == mac
		}
		return err
	})
	return is
}
