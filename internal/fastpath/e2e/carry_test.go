package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

var basicFastPaths = []string{"routed+fast", "vxlan+fast"}

// supportedFastPaths are those that this kernel can do; in a guest, those that it has for
// them alone.
func supportedFastPaths() []string {
	var netkits []string
	tunnels := moduleTunnels()
	if answer, _ := feature.Netkit.Ask(); answer == feature.Yes {
		netkits = []string{"netkit+fast", "netkit+fast:mode=l2", "vxlan+fast:pods=netkit"}
	}
	switch {
	case !kernel.HasTCX():
		return slices.Concat(basicFastPaths, tunnels)
	case len(netkits) > 0 && agenttest.InGuest():
		return slices.Concat(netkits, tunnels)
	}
	return slices.Concat(basicFastPaths, tcFilterPaths, netkits, tunnels)
}

// moduleTunnels are the fast paths over tunnels that this machine's own kernel may lack.
func moduleTunnels() (paths []string) {
	for path, probe := range map[string]*feature.Probe{"ipip+fast": feature.IPIP, "geneve+fast": feature.Geneve} {
		if answer, _ := probe.Ask(); answer == feature.Yes {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// withTunnels are paths and those over IPIP and Geneve where this kernel has them; in a guest, which runs
// for what this machine's own kernel lacks, those alone, unless its programs are tc filters.
func withTunnels(paths ...string) []string {
	tunnels := moduleTunnels()
	if len(tunnels) > 0 && agenttest.InGuest() && kernel.HasTCX() {
		return tunnels
	}
	return slices.Concat(paths, tunnels)
}

// twins are fast paths, each behind the path that it lies over.
func twins(fast []string) (paths []string) {
	for _, path := range fast {
		slow := slowTwin(path)
		if slow == "geneve" {
			slow += ":devices=each"
		}
		paths = append(paths, slow, path)
	}
	return paths
}

// slowTwin is the path that a fast path lies over; of any other path, it itself.
func slowTwin(path string) string { return strings.TrimSuffix(path, "+fast") }

// isFor tells whether something is for a path or its twin: among the paths that it names, if it
// names any.
func isFor(paths, path string) bool {
	return paths == "" || slices.Contains(strings.Fields(paths), slowTwin(path))
}

// isForAny tells whether something is for any of some paths.
func isForAny(only string, paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool { return isFor(only, path) })
}

// tcFilterPaths are paths whose programs are tc filters, whatever the kernel has.
var tcFilterPaths = []string{"vxlan+fast:attach=tc", "routed+fast:attach=tc"}

// Established flows are carried, both ways on both machines, whether conntrack
// follows them or not.
func TestFastPathCarries(t *testing.T) {
	requireFastPath(t)
	for _, services := range []int{0, 30} {
		l := testenv.Lab(t, lab.Options{Paths: supportedFastPaths(), Services: services})
		for _, arm := range l.Arms {
			t.Run(arm.Name, func(t *testing.T) {
				traffic.CheckTCP(t, arm.Client(), arm.Server())
				fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) { fastpathtest.WaitCarried(t, arm, exchange) })
			})
		}
	}
}

func requireFastPath(t testing.TB) {
	t.Helper()
	testenv.Root(t)
	if answer, err := feature.Programs.Ask(); answer != feature.Yes {
		t.Skipf("this kernel has no fast path: %v", err)
	}
	if agenttest.InGuest() {
		testenv.Must(t, useHooks())
	}
}

// A rule that forbids what is carried takes hold by itself, and so does its end.
func TestFastPathObeysNewRules(t *testing.T) {
	requireFastPath(t)
	l := testenv.Lab(t, lab.Options{Paths: supportedFastPaths()})
	for _, arm := range l.Arms {
		for i, m := range l.Machines {
			t.Run(arm.Name+" "+m.Name, func(t *testing.T) {
				fastpathtest.WithFlow(t, arm, func(exchange func(wait time.Duration) error) {
					fastpathtest.WaitCarried(t, arm, exchange)
					allow := testenv.Forbid(t, m.Namespace)
					fastpathtest.WaitAnswered(t, exchange, false)
					before := fastpathtest.CarriedPackets(t, arm)
					for range 20 {
						_ = exchange(time.Millisecond) // nothing is to come back
					}
					if now := fastpathtest.CarriedPackets(t, arm); now[2*i] != before[2*i] {
						t.Errorf("%s carries what its rules forbid: %v, before %v", m.Name, now, before)
					}
					allow()
					fastpathtest.WaitAnswered(t, exchange, true)
					fastpathtest.WaitCarried(t, arm, exchange)
				})
			})
		}
	}
}

// When its daemon is killed, the fast path gives up by itself, and loses nothing.
// The next daemon takes over.
func TestFastPathWithoutDaemon(t *testing.T) {
	requireFastPath(t)
	l := testenv.Lab(t, lab.Options{Paths: supportedFastPaths()})
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) {
			fastpathtest.WithFlow(t, arm, func(exchange func(wait time.Duration) error) {
				fastpathtest.WaitCarried(t, arm, exchange)
				config := filepath.Join(filepath.Dir(arm.Pins[0]), "fast.json")
				testenv.Must(t, unix.Kill(findDaemon(t, l.Machines[0].Namespace, config), unix.SIGKILL))
				waitSlow(t, arm, exchange)
				again := exec.Command(testenv.Program(t)[0], "fastpath", "--config", config)
				again.Stderr = t.Output()
				testenv.Must(t, host.Do(l.Machines[0].Namespace, again.Start))
				defer func() {
					testenv.Must(t, again.Process.Signal(unix.SIGTERM))
					testenv.Must(t, again.Wait())
				}()
				fastpathtest.WaitCarried(t, arm, exchange)
			})
		})
	}
}

// findDaemon finds the daemon with a config.
func findDaemon(t *testing.T, namespace, config string) int {
	t.Helper()
	id, err := host.ID(namespace)
	testenv.Must(t, err)
	pids, err := host.Reader{}.ProcessesIn(id)
	testenv.Must(t, err)
	for _, pid := range pids {
		if slices.Contains(host.Reader{}.Command(pid), config) {
			return pid
		}
	}
	t.Fatalf("there is no daemon with config %s", config)
	return 0
}

// waitSlow exchanges datagrams until a hundred in a row are carried by nobody on
// the first machine: not one of them may be lost.
func waitSlow(t *testing.T, arm lab.Arm, exchange func(wait time.Duration) error) {
	t.Helper()
	end := time.Now().Add(testenv.Timeout)
	before := fastpathtest.CarriedPackets(t, arm)
	for row := 0; row < 100; row++ {
		testenv.Must(t, exchange(testenv.Timeout))
		if now := fastpathtest.CarriedPackets(t, arm); now[0] != before[0] || now[1] != before[1] {
			before, row = now, 0
		}
		if time.Now().After(end) {
			t.Fatalf("after %v without a daemon, packets are still carried", testenv.Timeout)
		}
	}
}
