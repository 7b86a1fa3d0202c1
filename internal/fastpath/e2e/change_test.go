package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"
	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// change is a change of a machine while flows of its pods are carried. What
// becomes of their packets is said here, shown on the path that has no fast path,
// and then wanted of the one that has.
type change struct {
	name     string
	path     string // on these paths and their fast twins; empty: on all
	services bool   // on machines that track connections, with the rules of Services
	// What is done on the machine, as a shell does it; words in braces stand for
	// what they are there, see [placeholders]: with one of them, it is done for each path.
	setup, do, undo, teardown string
	act                       func(t *testing.T, m lab.Machine) // instead of do
	out, in                   fate                              // of what the machine's pod sends, and of what it is sent
	rebuild                   bool                              // undo leaves addresses, neighbours and routes away
	answered                  bool                              // flows that are sent one way only are denied from the start
	repeated                  bool                              // it is made more than once: what comes back is no news to who forgets nothing
}

// changeLimit is within what time a change does, at the latest: the best of a few
// tries must, as this machine may have other things to do meanwhile.
var changeLimit = host.ScaleTimeout(100 * time.Millisecond)

const changeTries = 12

// changesEnv is how often each change is made; the times that it took are printed.
const changesEnv = "VENTURI_FAST_CHANGES"

// Whatever changes on a machine while flows are carried, their packets end where
// the slow path would take them, soon after the change; and when it is taken back
// they are carried again.
func TestFastPathFollowsChanges(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	paths := twins(withTunnels(basicFastPaths...))
	if kernel.HasTCX() && !agenttest.InGuest() {
		paths = append(paths, tcFilterPaths...) // beside the same ones
	}
	for _, services := range []int{0, 30} {
		due := func(s change) bool { return s.services == (services > 0) && s.isDue(paths) }
		if !slices.ContainsFunc(allChanges, due) {
			continue
		}
		l, flows := steadyLab(t, services, paths...)
		for n, s := range allChanges {
			if due(s) {
				t.Run(s.name, func(t *testing.T) { s.check(t, l, flows, n%len(l.Machines)) })
			}
		}
	}
}

// isDue tells whether a change is made where there are these paths. The short form in a guest makes
// those that concern the tunnel of IPIP, or Geneve alone, by name, and that rebuild nothing.
func (s change) isDue(paths []string) bool {
	if agenttest.InShortGuest() && (s.rebuild || s.path == "" || !isFor(s.path, "ipip") && s.path != "geneve") {
		return false
	}
	return isForAny(s.path, paths)
}

// watched is a path in a situation.
type watched struct {
	lab.Arm
	isFast  bool
	flow    *steady
	out, in *stream
	// The same of flows that are sent one way only; nil: there are none.
	onlyOut, onlyIn *stream
	words           *strings.Replacer
}

// expect are what is to become of what the machine's pod sends, and of what it is sent.
func (w watched) expect(out, in fate) []expectation {
	all := []expectation{{w.out, out, w.Path + " out"}, {w.in, in, w.Path + " in"}}
	if w.onlyOut == nil {
		return all
	}
	return append(all, expectation{w.onlyOut, out, w.Path + " out, unanswered"}, expectation{w.onlyIn, in, w.Path + " in, unanswered"})
}

// watchPaths gives some paths and their fast twins, or all paths, as the i-th machine sees them.
func watchPaths(t *testing.T, l *lab.Lab, flows []*steady, i int, only string) (paths []watched) {
	t.Helper()
	for n, arm := range l.Arms {
		if !isFor(only, arm.Path) {
			continue
		}
		w := watched{Arm: arm, isFast: len(arm.Pins) > 0, flow: flows[n], out: &flows[n].ab, in: &flows[n].ba, words: placeholders(t, l, n, i)}
		if one := flows[n].oneWay; one != nil {
			w.onlyOut, w.onlyIn = &one.ab, &one.ba
		}
		if i == 1 {
			w.out, w.in = w.in, w.out
			w.onlyOut, w.onlyIn = w.onlyIn, w.onlyOut
		}
		paths = append(paths, w)
	}
	return paths
}

// check lets a situation arise on the i-th machine.
func (s change) check(t *testing.T, l *lab.Lab, flows []*steady, i int) {
	paths := watchPaths(t, l, flows, i, s.path)
	if s.answered {
		for n := range paths {
			paths[n].onlyOut, paths[n].onlyIn = nil, nil
		}
	}
	m := l.Machines[i]
	restore := func() {}
	if s.rebuild {
		restore = saveAddressing(t, m)
	}
	var took []time.Duration
	times, _ := strconv.Atoi(os.Getenv(changesEnv))
	if s.repeated {
		times = max(times, 2)
	}
	for try := 1; ; try++ {
		took = append(took, s.playOnce(t, m, paths, restore))
		if try >= times && (slices.Min(took) <= changeLimit || try >= changeTries) {
			break
		}
	}
	checkWorking(t, paths)
	slices.Sort(took)
	t.Logf("on %s, took hold after %v (of %d: %v to %v)", m.Name, took[len(took)/2], len(took), took[0], took[len(took)-1])
	if took[0] > changeLimit {
		t.Errorf("the change took hold after %v at best, of %d tries", took[0], len(took))
	}
}

// playOnce makes the change, waits until it has taken hold, tells how long that took
// where there is a fast path, and takes it back.
func (s change) playOnce(t *testing.T, m lab.Machine, paths []watched, restore func()) (took time.Duration) {
	t.Helper()
	shell(t, m, paths, s.setup)
	defer shell(t, m, paths, s.teardown)
	checkWorking(t, paths)
	defer restore()
	defer shell(t, m, paths, s.undo)
	shell(t, m, paths, s.do)
	if s.act != nil {
		s.act(t, m)
	}
	changed := time.Now()
	var expected []expectation
	for _, w := range paths {
		expected = append(expected, w.expect(s.out, s.in)...)
	}
	settled := waitAll(t, expected, changed)
	for i, w := range expected {
		one := w.way.last(!w.want, changed, settled)
		if paths[i*len(paths)/len(expected)].isFast {
			took = max(took, one)
		} else if one > changeLimit {
			t.Logf("%s took %v", w.name, one)
		}
	}
	waitAll(t, expected, changed)
	for _, w := range expected { // and so it stays
		if of := w.way.count(settled, time.Now()); w.want == dropped && of[delivered] > 0 {
			t.Errorf("%s: %d datagrams were delivered after all", w.name, of[delivered])
		}
	}
	return took
}

// checkWorking waits until all paths deliver, and fast ones carry, both ways.
func checkWorking(t *testing.T, paths []watched) {
	t.Helper()
	var expected []expectation
	for _, w := range paths {
		expected = append(expected, w.expect(delivered, delivered)...)
	}
	waitAll(t, expected, time.Now())
	for _, w := range paths {
		if w.isFast {
			w.carries(t)
		}
	}
}

// carries waits until a path's fast path carries, both ways on both machines.
func (w watched) carries(t *testing.T) {
	t.Helper()
	before := fastpathtest.CarriedPackets(t, w.Arm)
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(pace) {
		least := ^uint64(0)
		for i, now := range fastpathtest.CarriedPackets(t, w.Arm) {
			least = min(least, now-before[i])
		}
		if least >= uint64(minPackets) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: after %v, machines carried %v, and %v before", w.Path, testenv.Timeout, fastpathtest.CarriedPackets(t, w.Arm), before)
		}
	}
}

// shell does something on a machine: for each path if it names one's devices or
// pods, and else once.
func shell(t *testing.T, m lab.Machine, paths []watched, script string) {
	t.Helper()
	if script == "" {
		return
	}
	each := []string{script}
	for i, w := range paths {
		if own := w.words.Replace(script); i == 0 {
			each[0] = own
		} else if !slices.Contains(each, own) {
			each = append(each, own)
		}
	}
	text := strings.Join(each, "\n")
	if err := host.Do(m.Namespace, func() error { return runScript(text) }); err != nil {
		t.Fatalf("on %s: %v", m.Name, err)
	}
}

// runScript runs a script in the calling thread's namespace.
func runScript(script string) error {
	said, err := exec.Command("sh", "-euc", script).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s\nof: %s", err, said, script)
	}
	return nil
}

// placeholders gives the words of situations on the i-th machine, for the n-th path.
func placeholders(t *testing.T, l *lab.Lab, n, i int) *strings.Replacer {
	t.Helper()
	arm := l.Arms[n]
	pod, peer := arm.Ends[i][0], arm.Ends[1-i][0]
	words := []string{
		"{n}", strconv.Itoa(n), "{otherns}", l.Machines[1-i].Namespace, "{pod}", pod.Addr.String(), "{peer}", peer.Addr.String(), "{podns}", pod.Namespace, "{podmtu}", strconv.Itoa(pod.MTU),
	}
	address, other := l.Machines[i].Addr, l.Machines[1-i].Addr // outer ones, if there is a tunnel
	if pod.Addr.Is6() {
		address, other = netip.MustParseAddr(wireAddr6(i)), netip.MustParseAddr(wireAddr6(1-i))
	}
	port, bridge := fmt.Sprintf("veth%d.0", n), fmt.Sprintf("cni%d", n)
	if !isFor("vxlan geneve", arm.Path) {
		port = fmt.Sprintf("cali%d", n)
		bridge = port
	}
	words = append(words, "{port}", port, "{gate}", bridge)
	overTunnel := false
	testenv.Must(t, host.Do(l.Machines[i].Namespace, func() error {
		routes, err := vnl.RouteGet(peer.Addr.AsSlice())
		if err != nil {
			return err
		}
		out, err := vnl.LinkByIndex(routes[0].LinkIndex)
		if err != nil {
			return err
		}
		gate, err := vnl.LinkByName(bridge)
		if err != nil {
			return err
		}
		words = append(words, "{out}", out.Attrs().Name, "{outmac}", out.Attrs().HardwareAddr.String(), "{mtu}", strconv.Itoa(out.Attrs().MTU),
			"{hop}", routes[0].Gw.String(), "{gatemac}", gate.Attrs().HardwareAddr.String())
		switch tunnel := out.(type) {
		case *vnl.Vxlan:
			overTunnel = true
			words = append(words, "{vni}", strconv.Itoa(tunnel.VxlanId), "{udp}", strconv.Itoa(tunnel.Port))
		case *vnl.Geneve:
			words = append(words, "{vni}", strconv.Itoa(int(tunnel.ID)), "{udp}", strconv.Itoa(int(tunnel.Dport)))
		case *vnl.Iptun:
			address, other = nlmsg.ToAddr(tunnel.Local), nlmsg.ToAddr(routes[0].Gw)
		}
		words = append(words, "{address}", address.String(), "{other}", other.String())
		family := vnl.FAMILY_V4
		if pod.Addr.Is6() {
			family = vnl.FAMILY_V6
		}
		neighbours, err := vnl.NeighList(0, family)
		for _, n := range neighbours {
			for word, addr := range map[string]net.IP{"{hopmac}": routes[0].Gw, "{othermac}": other.AsSlice(), "{podmac}": pod.Addr.AsSlice()} {
				if n.IP.Equal(addr) && len(n.HardwareAddr) > 0 { // an ipip device has none
					words = append(words, word, n.HardwareAddr.String())
				}
			}
		}
		return err
	}))
	if pod.Addr.Is6() {
		own := wireAddr6(i)
		if overTunnel {
			own = tunnelAddr6(n, i)
		}
		words = append(words, "{own6}", own, "{other6}", wireAddr6(1-i), "{block6}", blockOf6(peer.Addr).String())
	}
	return strings.NewReplacer(words...)
}

// saveAddressing remembers what a machine has been told of addresses, neighbours,
// forwarding entries and routes; restore tells it again what it has forgotten.
func saveAddressing(t *testing.T, m lab.Machine) (restore func()) {
	t.Helper()
	var told strings.Builder
	read := func(command string, line func(fields []string) string) {
		var said []byte
		testenv.Must(t, host.Do(m.Namespace, func() (err error) {
			said, err = exec.Command("sh", "-euc", command).Output()
			return err
		}))
		for text := range strings.Lines(string(said)) {
			if fields := strings.Fields(text); len(fields) > 2 {
				fmt.Fprintf(&told, "%s || true\n", line(fields))
			}
		}
	}
	read("ip -4 -o addr show", func(f []string) string { return "ip addr replace " + f[3] + " dev " + f[1] })
	read("ip -4 neigh show nud permanent", func(f []string) string {
		return "ip neigh replace " + strings.Join(f[:len(f)-1], " ") + " nud permanent"
	})
	read("bridge fdb show | grep 'dst.*self' || true", func(f []string) string { return "bridge fdb replace " + strings.Join(f, " ") })
	read("ip -4 route show", func(f []string) string {
		return "ip route replace " + strings.Join(slices.DeleteFunc(f, func(s string) bool { return s == "linkdown" }), " ")
	})
	return func() {
		t.Helper()
		shell(t, m, nil, told.String())
	}
}

// forgetConnections makes a machine's connection tracking forget them all.
func forgetConnections(t *testing.T, m lab.Machine) {
	t.Helper()
	testenv.Must(t, host.Do(m.Namespace, func() error {
		c, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Flush()
	}))
}

// markConnections gives all connections of a machine a mark.
func markConnections(t *testing.T, m lab.Machine, mark uint32) {
	t.Helper()
	testenv.Must(t, host.Do(m.Namespace, func() error {
		c, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer c.Close()
		all, err := c.Dump(nil)
		for _, f := range all {
			to := f.TupleOrig
			changed := conntrack.NewFlow(to.Proto.Protocol, 0, to.IP.SourceAddress, to.IP.DestinationAddress, to.Proto.SourcePort, to.Proto.DestinationPort, 0, mark)
			if failed := c.Update(changed); !errors.Is(failed, unix.ENOENT) {
				err = errors.Join(err, failed)
			}
		}
		return err
	}))
}
