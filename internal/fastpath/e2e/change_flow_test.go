package e2e

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// pace is how often an end of a steady flow sends, and minPackets how many datagrams in a row show what becomes of
// all. In short, half as many do, over the same time: most of the CPU time that changes take is theirs.
var pace, minPackets = func() (time.Duration, int) {
	if agenttest.InFull() {
		return host.ScaleTimeout(2 * time.Millisecond), 25
	}
	return host.ScaleTimeout(4 * time.Millisecond), 13
}()

// sender sends datagrams all the time, whoever gets them.
type sender struct {
	mu   sync.Mutex
	sent []time.Time // by number
}

// stream is what becomes of them at one receiver.
type stream struct {
	*sender
	arrived []bool // by number
}

// steady is a flow between two sockets, both of which send all the time.
type steady struct {
	a, b     *net.UDPConn
	ab, ba   stream
	oneWay   *steady // others, of which each is sent one way only; nil: there are none
	finished sync.WaitGroup
}

// steadyLab raises paths, and lets a flow begin between the pods of each.
func steadyLab(t *testing.T, services int, paths ...string) (*lab.Lab, []*steady) {
	t.Helper()
	l := testenv.Lab(t, lab.Options{Paths: paths, Services: services})
	var flows []*steady
	for _, arm := range l.Arms {
		s := steadyFlow(t, arm)
		s.oneWay = oneWayFlows(t, arm)
		flows = append(flows, s)
	}
	return l, flows
}

// steadyFlow lets a flow begin between the pods of a path.
func steadyFlow(t *testing.T, arm lab.Arm) *steady {
	t.Helper()
	s := &steady{a: traffic.ListenUDP(t, arm.Client()), b: traffic.ListenUDP(t, arm.Server()), ab: stream{sender: new(sender)}, ba: stream{sender: new(sender)}}
	for _, c := range []*net.UDPConn{s.a, s.b} {
		// A receiver that this machine lets wait loses nothing.
		testenv.Must(t, traffic.SetSocketOption(c, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20))
	}
	s.finished.Go(func() { s.ab.send(s.a, addrPort(s.b)) })
	s.finished.Go(func() { s.ba.send(s.b, addrPort(s.a)) })
	s.finished.Go(func() { s.ab.receive(s.b, addrPort(s.a)) })
	s.finished.Go(func() { s.ba.receive(s.a, addrPort(s.b)) })
	t.Cleanup(s.end)
	return s
}

// oneWayFlows lets two flows begin between the pods of a path: from the one, and from the
// other.
func oneWayFlows(t *testing.T, arm lab.Arm) *steady {
	t.Helper()
	s := &steady{a: traffic.ListenUDP(t, arm.Client()), b: traffic.ListenUDP(t, arm.Server()), ab: stream{sender: new(sender)}, ba: stream{sender: new(sender)}}
	toA, toB := traffic.ListenUDP(t, arm.Client()), traffic.ListenUDP(t, arm.Server())
	s.finished.Go(func() { s.ab.send(s.a, addrPort(toB)) })
	s.finished.Go(func() { s.ba.send(s.b, addrPort(toA)) })
	s.finished.Go(func() { s.ab.receive(toB, addrPort(s.a)) })
	s.finished.Go(func() { s.ba.receive(toA, addrPort(s.b)) })
	t.Cleanup(func() {
		toA.Close()
		toB.Close()
		s.end()
	})
	return s
}

// end ends it; twice does no harm.
func (s *steady) end() {
	s.a.Close()
	s.b.Close()
	s.finished.Wait()
}

func addrPort(c *net.UDPConn) netip.AddrPort { return c.LocalAddr().(*net.UDPAddr).AddrPort() }

// send sends until the socket is closed. What the kernel will not send is lost on
// the way like anything else.
func (s *sender) send(from *net.UDPConn, to netip.AddrPort) {
	ticks := time.NewTicker(pace)
	defer ticks.Stop()
	for n := uint64(0); ; n++ {
		s.mu.Lock()
		s.sent = append(s.sent, time.Now())
		s.mu.Unlock()
		if _, err := from.WriteToUDPAddrPort(binary.BigEndian.AppendUint64(nil, n), to); isClosed(err) {
			return
		}
		<-ticks.C
	}
}

// receive notes what arrives from an address until the socket is closed.
func (s *stream) receive(at *net.UDPConn, from netip.AddrPort) {
	for buf := make([]byte, 64); ; {
		n, sender, err := at.ReadFromUDPAddrPort(buf)
		if isClosed(err) {
			return
		}
		if err != nil || n != 8 || sender != from {
			continue
		}
		s.mu.Lock()
		s.arrived = append(s.arrived, make([]bool, len(s.sent)-len(s.arrived))...)
		if number := binary.BigEndian.Uint64(buf); number < uint64(len(s.arrived)) {
			s.arrived[number] = true
		}
		s.mu.Unlock()
	}
}

// isClosed tells whether a socket is, by what it said.
func isClosed(err error) bool {
	op, ok := err.(*net.OpError)
	return ok && op.Err == net.ErrClosed
}

// fate is what becomes of what is sent.
type fate bool

const (
	dropped   fate = false
	delivered fate = true
)

func (f fate) String() string {
	if f == delivered {
		return "delivered"
	}
	return "dropped"
}

func (s *stream) fate(n int) fate { return fate(n < len(s.arrived) && s.arrived[n]) }

// count tells what became of the datagrams that were sent between two instants.
func (s *stream) count(from, to time.Time) (of map[fate]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of = map[fate]int{}
	for n := len(s.sent) - 1; n >= 0 && s.sent[n].After(from); n-- {
		if !s.sent[n].After(to) {
			of[s.fate(n)]++
		}
	}
	return of
}

// last is for how long after an instant, until another, a datagram was sent of
// which became that.
func (s *stream) last(what fate, from, to time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.sent) - 1; n >= 0 && s.sent[n].After(from); n-- {
		if !s.sent[n].After(to) && s.fate(n) == what {
			return s.sent[n].Sub(from)
		}
	}
	return 0
}

// settleTime is for how long a datagram may be between two sockets of this machine.
var settleTime = host.ScaleTimeout(10 * time.Millisecond)

// expectation is what is to become of what is sent.
type expectation struct {
	way  *stream
	want fate
	name string
}

// holds tells whether it became of all that was sent between two instants.
func (w expectation) holds(from, to time.Time) bool {
	of := w.way.count(from, to)
	return of[w.want] >= minPackets/2 && of[!w.want] == 0
}

// waitAll waits until expectations hold, all at the same time, and gives that time.
func waitAll(t *testing.T, expected []expectation, since time.Time) time.Time {
	t.Helper()
	for end := time.Now().Add(testenv.Timeout); time.Now().Before(end); {
		mark := time.Now()
		time.Sleep(time.Duration(minPackets) * pace)
		now := time.Now()
		time.Sleep(settleTime)
		if !slices.ContainsFunc(expected, func(w expectation) bool { return !w.holds(mark, now) }) {
			return now
		}
	}
	for _, w := range expected {
		if mark := time.Now().Add(-time.Second); !w.holds(mark, time.Now().Add(-settleTime)) {
			of := w.way.count(since, time.Now())
			t.Errorf("%s: after %v, not all that is sent is %v: %d datagrams arrived, and %d did not", w.name, testenv.Timeout, w.want, of[delivered], of[dropped])
		}
	}
	t.Fatal("the flows are not what they should be")
	return time.Time{}
}
