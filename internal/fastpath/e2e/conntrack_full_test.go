package e2e

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// How many connections are tracked, and in how many buckets, is one number for all
// namespaces: it is set in a virtual machine only.
const (
	limitFile   = "/proc/sys/net/netfilter/nf_conntrack_max"
	bucketsFile = "/sys/module/nf_conntrack/parameters/hashsize"
)

// tableFull is what happens on the first machine while the table of connections is full.
type tableFull struct {
	name     string
	do, undo string // as a shell does it
	act      func(t *testing.T, m lab.Machine)
	old      fate // of flows that were there before
	connect  bool // it is also tried to open connections, and to use those that are open
	tunnels  bool // also where packets of tunnels are tracked
	short    bool // also in the suite's short form
}

// New flows are dropped in all of them.
var tableFullCases = []tableFull{
	{name: "nothing", old: delivered, connect: true, short: true},
	{name: "rules change", do: "nft add table ip nothing", undo: "nft delete table ip nothing", old: delivered, short: true, tunnels: true},
	{name: "connections are forgotten", act: forgetFlows, old: dropped, tunnels: true, short: true},
	{
		name: "a rule forbids datagrams", old: dropped,
		do:   `nft 'table ip deny { chain c { type filter hook forward priority 0; meta l4proto udp drop; }; }'`,
		undo: "nft delete table ip deny",
	},
}

// untracked exempts the packets of tunnels from connection tracking, as some networks do.
const untracked = `nft 'table ip raw {
	chain in { type filter hook prerouting priority -300; udp dport 8472 notrack; };
	chain out { type filter hook output priority -300; udp dport 8472 notrack; };
}'`

// When the table of connections is full, established flows go on and are carried, and
// new ones fare as on the slow path: the machine drops them. When there is room
// again, they are learned. It runs in a virtual machine, see TestKernels.
func TestFastPathConntrackFull(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	if !agenttest.InGuest() {
		t.Skip("the limit of connections is the whole machine's")
	}
	l := testenv.Lab(t, lab.Options{Paths: []string{"vxlan", "vxlan+fast"}, Services: 3})
	var conns []net.Conn // the table is never empty
	for _, arm := range l.Arms {
		conns = append(conns, dial(t, arm.Client(), serve(t, arm.Server())))
	}
	for _, arm := range l.Arms {
		t.Run("given up for others on "+arm.Name, func(t *testing.T) { checkGivenUp(t, l.Machines[0], arm) })
	}
	var flows []*steady
	for _, arm := range l.Arms {
		flows = append(flows, steadyFlow(t, arm))
	}
	for _, f := range tableFullCases {
		if f.tunnels && agenttest.ChosenPart() == agenttest.AllTests {
			t.Run(f.name+", tunnels are tracked", func(t *testing.T) { f.check(t, l, watchPaths(t, l, flows, 0, ""), conns) })
		}
	}
	for _, m := range l.Machines {
		shell(t, m, nil, untracked)
		forgetUDP(t, m, true) // they count as young, since each goes one way only, and would be given up for a new flow
	}
	for _, f := range tableFullCases {
		if !f.short && agenttest.ChosenPart() != agenttest.AllTests {
			continue
		}
		t.Run(f.name, func(t *testing.T) { f.check(t, l, watchPaths(t, l, flows, 0, ""), conns) })
	}
}

// check lets it happen. Conns are connections of the paths.
func (f tableFull) check(t *testing.T, l *lab.Lab, paths []watched, conns []net.Conn) {
	retryUntilFast(t, func() time.Duration { return f.playOnce(t, l.Machines[0], paths, conns) })
}

// retryUntilFast wants something to take hold soon, at least in one of a few tries.
func retryUntilFast(t *testing.T, try func() (took time.Duration)) {
	t.Helper()
	const tries = 3
	best := try()
	for n := 1; best > changeLimit && n < tries; n++ {
		best = min(best, try())
	}
	if best > changeLimit {
		t.Errorf("it took hold after %v at best, of %d tries", best, tries)
	}
}

// playOnce fills the table and lets it happen, and tells how long the fast path went on with
// flows that are to be dropped.
func (f tableFull) playOnce(t *testing.T, m lab.Machine, paths []watched, conns []net.Conn) (took time.Duration) {
	t.Helper()
	checkWorking(t, paths)
	before := turnedAway(t, m)
	free := setting(t, limitFile, "1") // the connections alone are more
	defer free()
	assureAll(t, m)
	shell(t, m, nil, f.do)
	if f.act != nil {
		f.act(t, m)
	}
	changed := time.Now()
	var olds, news []expectation
	var freshes []*steady
	for _, w := range paths {
		fresh := steadyFlow(t, w.Arm)
		freshes = append(freshes, fresh)
		olds = append(olds, expectation{w.out, f.old, w.Path + " out"}, expectation{w.in, f.old, w.Path + " in"})
		news = append(news, expectation{&fresh.ab, dropped, "new on " + w.Path + ", there"}, expectation{&fresh.ba, dropped, "new on " + w.Path + ", back"})
	}
	settled := waitAll(t, append(olds, news...), changed)
	for i, w := range olds {
		if paths[i/2].isFast && f.old == dropped {
			took = max(took, w.way.last(delivered, changed, settled))
		}
	}
	for i, w := range paths {
		if w.isFast && f.old == delivered {
			w.carriesOnly(t, w.flow)
		}
		if f.connect {
			echoes(t, conns[i], w.Path)
			noConnection(t, w, freshes[i])
		}
	}
	waitAll(t, append(olds, news...), changed)
	for _, w := range olds {
		if of := w.way.count(settled, time.Now()); w.want == dropped && of[delivered] > 0 {
			t.Errorf("%s: %d datagrams were delivered after all", w.name, of[delivered])
		}
	}
	for _, w := range news {
		if of := w.way.count(changed, time.Now()); of[delivered] > 0 {
			t.Errorf("%s: %d datagrams were delivered", w.name, of[delivered])
		}
	}
	if now := turnedAway(t, m); now == before {
		t.Errorf("connection tracking turned nothing away: the table was not full")
	}

	shell(t, m, nil, f.undo)
	free()
	for i := range news {
		olds[i].want, news[i].want = delivered, delivered
	}
	waitAll(t, append(olds, news...), time.Now())
	for i, w := range paths {
		if w.isFast {
			w.carriesOnly(t, w.flow, freshes[i])
		}
	}
	for _, f := range freshes {
		f.end()
	}
	return took
}

// carriesOnly waits until a path's fast path carries what some flows send, and no more:
// but for a few that were under way.
func (w watched) carriesOnly(t *testing.T, flows ...*steady) {
	t.Helper()
	sent := func() (there, back uint64) {
		for _, f := range flows {
			there += f.ab.many()
			back += f.ba.many()
		}
		return there, back
	}
	for end := time.Now().Add(testenv.Timeout); ; {
		before := fastpathtest.CarriedPackets(t, w.Arm)
		there, back := sent()
		time.Sleep(time.Duration(minPackets) * pace)
		now := fastpathtest.CarriedPackets(t, w.Arm)
		thereNow, backNow := sent()
		fits := true
		for i, of := range []uint64{thereNow - there, backNow - back, backNow - back, thereNow - there} {
			many := now[i] - before[i]
			fits = fits && of >= uint64(minPackets/2) && 4*many >= 3*of && 4*many <= 5*of
		}
		if fits {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: after %v, machines carried %v, and %v before, while %d datagrams were sent there, and %d back",
				w.Path, testenv.Timeout, now, before, thereNow-there, backNow-back)
		}
	}
}

// many is how many datagrams were sent.
func (s *sender) many() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(len(s.sent))
}

// echoes wants what is sent on a connection to come back.
func echoes(t *testing.T, conn net.Conn, path string) {
	t.Helper()
	buf := make([]byte, 1000)
	testenv.Must(t, conn.SetDeadline(time.Now().Add(testenv.Timeout)))
	for range 20 {
		_, err := conn.Write(buf)
		for n, got := 0, 0; err == nil && n < len(buf); n += got {
			got, err = conn.Read(buf)
		}
		if err != nil {
			t.Fatalf("%s: on a connection that was there before: %v", path, err)
		}
	}
}

// noConnection wants no new connection to come about.
func noConnection(t *testing.T, w watched, to *steady) {
	t.Helper()
	testenv.Must(t, host.Do(w.Client().Namespace, func() error {
		d := net.Dialer{Timeout: host.ScaleTimeout(50 * time.Millisecond)} // nobody listens, and would say so at once
		conn, err := d.Dial("tcp4", addrPort(to.b).String())
		var timeout net.Error
		if err == nil {
			conn.Close()
		}
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%s: a new connection ends with %v, and was to get no answer", w.Path, err)
		}
		return nil
	}))
}

// setting gives a value of the machine another text; back undoes it, once.
func setting(t *testing.T, file, text string) (back func()) {
	t.Helper()
	was, err := os.ReadFile(file)
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(file, []byte(text), 0))
	done := false
	return func() {
		if !done {
			done = true
			testenv.Must(t, os.WriteFile(file, []byte(strings.TrimSpace(string(was))), 0))
		}
	}
}

// tracking opens a machine's connection tracking.
func tracking(t *testing.T, m lab.Machine) (c *conntrack.Conn) {
	t.Helper()
	testenv.Must(t, host.Do(m.Namespace, func() (err error) {
		c, err = conntrack.Dial(nil)
		return err
	}))
	return c
}

// turnedAway is how many packets the machine dropped because their connections
// could not be tracked.
func turnedAway(t *testing.T, m lab.Machine) (packets uint64) {
	t.Helper()
	c := tracking(t, m)
	defer c.Close()
	cores, err := c.Stats()
	testenv.Must(t, err)
	for _, s := range cores {
		packets += uint64(s.Drop)
	}
	return packets
}

// assureAll has a machine keep all connections that it tracks. For a new one, the kernel would otherwise give up a
// young one if it finds one in the eight buckets from the new one's on: those of tunnels, which go one way only, stay
// young.
func assureAll(t *testing.T, m lab.Machine) {
	t.Helper()
	eachTracked(t, m, func(c *conntrack.Conn, f conntrack.Flow) error {
		if f.Status.Assured() {
			return nil
		}
		f.Status |= conntrack.StatusAssured
		return c.Update(f)
	})
}

// forgetFlows makes a machine forget the flows of UDP between pods, but not those of
// tunnels.
func forgetFlows(t *testing.T, m lab.Machine) { forgetUDP(t, m, false) }

// forgetUDP makes a machine forget flows of UDP: those of tunnels, or the others.
func forgetUDP(t *testing.T, m lab.Machine, tunnels bool) {
	t.Helper()
	forget(t, m, func(f conntrack.Flow) bool {
		to := f.TupleOrig.Proto
		return to.Protocol == unix.IPPROTO_UDP && tunnels == (to.DestinationPort == vxlanPort)
	})
}

// forget makes a machine forget the flows that are chosen, and says how many they were.
func forget(t *testing.T, m lab.Machine, chosen func(conntrack.Flow) bool) (forgotten int) {
	t.Helper()
	eachTracked(t, m, func(c *conntrack.Conn, f conntrack.Flow) error {
		if !chosen(f) {
			return nil
		}
		forgotten++
		return c.Delete(f)
	})
	return forgotten
}

// eachTracked does something with each connection that a machine tracks. One may have ended meanwhile.
func eachTracked(t *testing.T, m lab.Machine, do func(*conntrack.Conn, conntrack.Flow) error) {
	t.Helper()
	c := tracking(t, m)
	defer c.Close()
	all, err := c.Dump(nil)
	testenv.Must(t, err)
	for _, f := range all {
		if err := do(c, f); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}
