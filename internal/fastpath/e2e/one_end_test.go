package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// The suites once more with a fast path at one end alone: the other machine's kernel is all that makes or takes
// what that one carries. They are whole in the long tests and in those under other kernels, and short elsewhere.

// withoutFastPath ends an arm's fast path on the i-th machine, and gives the arm without its pins there.
func withoutFastPath(t *testing.T, l *lab.Lab, arm lab.Arm, i int) lab.Arm {
	t.Helper()
	pins := arm.Pins[i]
	pid := findDaemon(t, l.Machines[i].Namespace, filepath.Join(filepath.Dir(pins), "fast.json"))
	testenv.Must(t, unix.Kill(pid, unix.SIGTERM))
	eventually(t, "the daemon has ended", func() bool { return len(host.Reader{}.Command(pid)) == 0 })
	left, err := bpf.Attached(pins)
	testenv.Must(t, err)
	if len(left) > 0 {
		t.Fatalf("left attached: %v", left)
	}
	arm.Pins = slices.Clone(arm.Pins)
	arm.Pins[i] = ""
	return arm
}

// besidePlain is a lab in which all fast paths of the i-th machine have ended. Its vxlan devices write no outer
// checksums any more: what has some is not carried, see [TestFastPathOuterChecksums].
func besidePlain(t *testing.T, l *lab.Lab, i int) *lab.Lab {
	t.Helper()
	plain := *l
	plain.Arms = slices.Clone(l.Arms)
	for n, arm := range l.Arms {
		if len(arm.Pins) > 0 {
			plain.Arms[n] = withoutFastPath(t, l, arm, i)
		}
		if isFor("vxlan", arm.Path) {
			restore := saveAddressing(t, l.Machines[i])
			shell(t, l.Machines[i], []watched{{words: placeholders(t, l, n, i)}}, `ip link del {out}
				ip link add {out} address {outmac} mtu {mtu} type vxlan id {vni} local {address} dev wire0 dstport {udp} nolearning noudpcsum
				ip link set {out} up`)
			restore()
		}
	}
	return &plain
}

// onPlainEnds runs a test with each machine in turn as the one without a fast path.
func onPlainEnds(t *testing.T, run func(t *testing.T, plain int)) {
	t.Helper()
	for i := range 2 {
		t.Run(fmt.Sprintf("none on m%d", i+1), func(t *testing.T) { run(t, i) })
	}
}

// What a fast path carries, the kernel at the other end takes for its own network's, and the other way round.
func TestFastPathReplaysOneEnd(t *testing.T) {
	requireFastPath(t)
	paths, services := scenes(), []int{0, 30}
	if !agenttest.InFull() {
		paths, services = paths[:2], services[:1]
	}
	onPlainEnds(t, func(t *testing.T, plain int) {
		played := func(cases []replayed) []replayed {
			return slices.DeleteFunc(slices.Clone(cases), func(c replayed) bool { return c.wire && plain == 1 }) // the second machine carries what is on the wire
		}
		for _, services := range services {
			l := testenv.Lab(t, lab.Options{Paths: paths, Services: services})
			beside := besidePlain(t, l, plain)
			if plain == 1 {
				unshareWire(t, l.Machines[plain])
			}
			t.Run(fmt.Sprintf("%d services", services), func(t *testing.T) {
				pin(t)
				for i := 0; i < len(l.Arms); i += 2 {
					slow, fast := newScene(t, beside, i), newScene(t, beside, i+1)
					replayCases(t, slow, fast, played(slices.Concat(podReplays, wireReplays)))
					replayOneWay(t, slow, fast, played(oneWayReplays))
				}
			})
			testenv.Must(t, l.Down())
		}
	})
}

// unshareWire has the kernel of a machine without programs copy what it takes from the wire, as it does for
// programs that write. Otherwise, when it forwards a datagram that it has reassembled, it writes its headers over
// what taps have of the fragments (ip_do_fragment).
func unshareWire(t *testing.T, m lab.Machine) {
	t.Helper()
	if len(moduleTunnels()) == 0 {
		return // all other paths have an Ethernet header there, as what it writes is
	}
	shell(t, m, nil, "tc qdisc replace dev wire0 clsact; tc filter add dev wire0 ingress matchall action pedit munge offset 0 u8 preserve")
}

// Changes take hold as soon on either machine.
func TestFastPathFollowsChangesOneEnd(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	paths, services, each := twins(withTunnels(basicFastPaths...)), []int{0, 30}, 1
	if !agenttest.InFull() {
		paths, services, each = twins(withTunnels("vxlan+fast")), services[:1], 10
	}
	onPlainEnds(t, func(t *testing.T, plain int) {
		for _, services := range services {
			l, flows := steadyLab(t, services, paths...)
			beside := besidePlain(t, l, plain)
			for n, s := range allChanges {
				if s.services == (services > 0) && s.isDue(paths) && n%each == plain {
					t.Run(s.name, func(t *testing.T) { s.check(t, beside, flows, n/each%2) })
				}
			}
		}
	})
}

// Generated cases have the same fate with a fast path and without, where the other machine has none.
func TestFastPathGeneratedOneEnd(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	testenv.NeedsLong(t)
	const plain = 1 // a case makes no difference between machines
	s := newGenSiteBeside(t, plain, genPathsHere())
	for _, c := range knownCases {
		c.machine = 1 - plain
		s.playAs(t, c)
	}
	count := map[string]int{}
	for seed := range uint64(fewCases) {
		c := generate(1 + seed)
		c.machine = 1 - plain
		count[s.playAs(t, c).summary()]++
	}
	if t.Logf("cases: %v", count); count[isCarried] == 0 {
		t.Errorf("packets were carried in none of %d cases", fewCases)
	}
}

// So may anything happen to the one daemon that there is.
func TestFastPathOneDaemonOneEnd(t *testing.T) {
	onEach(t, "routed+fast", func(t *testing.T, l *lab.Lab, arm lab.Arm) {
		checkOneDaemon(t, l, withoutFastPath(t, l, arm, 1))
	})
}

// A kernel gives what its vxlan device sends an outer checksum, which programs do not verify: a fast path learns
// from such packets and leaves them to its own kernel, and carries what goes there.
func TestFastPathOuterChecksums(t *testing.T) {
	requireFastPath(t)
	l := testenv.Lab(t, lab.Options{Paths: []string{"vxlan+fast"}})
	arm := withoutFastPath(t, l, l.Arms[0], 1)
	fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) {
		const many = 200
		for end := time.Now().Add(testenv.Timeout); ; {
			before, slow := fastpathtest.CarriedPackets(t, arm), slowChecksums(t, arm)
			for range many {
				testenv.Must(t, exchange(testenv.Timeout))
			}
			now := fastpathtest.CarriedPackets(t, arm)
			if now[1] != before[1] {
				t.Fatalf("of %d packets with an outer checksum, %d were carried", many, now[1]-before[1])
			}
			if now[0]-before[0] == many && slowChecksums(t, arm)-slow == many {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("of %d packets each way, %d are carried out, and %d are slow for their outer checksum", many, now[0]-before[0], slowChecksums(t, arm)-slow)
			}
		}
	})
}

// slowChecksums is how many packets were slow on the first machine for the checksum of their outer header.
func slowChecksums(t *testing.T, arm lab.Arm) uint64 {
	t.Helper()
	stats, err := fastpath.ReadStats(arm.Pins[0])
	testenv.Must(t, err)
	return stats[bpf.PerDirection+bpf.SlowChecksum].Packets
}
