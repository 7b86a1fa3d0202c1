package engine

import (
	"io"
	"math"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
)

// TestStreamHoldsNothingBack wants a slice's last bytes sent when it ends,
// whatever Nagle's rule would hold back; and that the rule can be had again.
func TestStreamHoldsNothingBack(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, server) // ends with the connection
	}()
	defer func() { client.Close(); server.Close(); <-drained }()
	file, err := client.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	a := &active{plan: &load.Plan{Size: 8, Arms: make([]load.Arm, 1)}, tcp: true, conn: socket{fd: int(file.Fd())}, buf: make([]byte, 64)}
	for range 2 {
		if err := a.stream(2 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if off, err := unix.GetsockoptInt(a.conn.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY); err != nil || off == 0 {
			t.Errorf("Nagle's rule still holds after a slice: %d, %v", off, err)
		}
		if err := a.conn.nagle(true); err != nil {
			t.Fatal(err)
		}
		if off, err := unix.GetsockoptInt(a.conn.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY); err != nil || off != 0 {
			t.Errorf("Nagle's rule cannot be switched on: %d, %v", off, err)
		}
	}
}

// TestSumStreams lays the windows of flows together: two flows that take turns
// carry what one would, not twice as much.
func TestSumStreams(t *testing.T) {
	plan := &load.Plan{Size: 1000, Head: 20}
	flow := func(a account) *active {
		return &active{plan: plan, tcp: true, sent: sendCounts{messages: a.messages, ns: 100}, done: frame{values: a.values()}}
	}
	datagrams := func(a account) *active {
		f := flow(a)
		f.tcp = false
		return f
	}
	for name, c := range map[string]struct {
		flows        []*active
		messages, ns int64
	}{
		"one":      {[]*active{flow(account{60, 50_000, 1000, 2000})}, 50, 1000},
		"in turns": {[]*active{flow(account{60, 50_000, 1000, 1500}), flow(account{60, 50_000, 1500, 2000})}, 100, 1000},
		"together": {[]*active{flow(account{60, 50_000, 1000, 2000}), flow(account{60, 50_000, 1100, 1900})}, 100, 1000},
		"starved":  {[]*active{flow(account{60, 50_000, 1000, 2000}), flow(account{3, 0, 0, 0})}, 50, 1000},

		"datagrams":                          {[]*active{datagrams(account{60, 50_000, 1000, 1040})}, 50, 40},
		"datagrams that came all at the end": {[]*active{datagrams(account{60, 50_000, 1000, 1039})}, 60, 100},
		"few datagrams":                      {[]*active{datagrams(account{3, 0, 0, 0})}, 3, 100},
		"no datagrams":                       {[]*active{datagrams(account{0, 0, 0, 0})}, 0, 0},
	} {
		s, elapsed := sumStreams(c.flows)
		if s.RateMessages != c.messages || s.RateNs != c.ns || s.RateBytes != 1000*c.messages || elapsed != 100*time.Nanosecond {
			t.Errorf("%s: %+v in %v", name, s, elapsed)
		}
	}
	s, _ := sumStreams([]*active{flow(account{3, 0, 0, 0})})
	if s.RateMessages != 0 || s.RateNs != 0 || s.SentMessages != 3 || s.RecvMessages != 3 || s.RecvBytes != 3000 {
		t.Errorf("without a window: %+v", s)
	}
}

func TestSinkCounts(t *testing.T) {
	c := newSinkCounts(1024, &window{head: 10})
	c.reset()
	for _, at := range []int64{100, 105, 109, 111, 120, 140} {
		c.bytes += 512 // half a message
		c.read(at)
	}
	// The first ten ns are the head: the window opens at 111, with two messages in.
	if got, want := c.account(), (account{0, 1024, 111, 140}); got != want {
		t.Errorf("account %+v, want %+v", got, want)
	}
	c.bytes += 512
	c.read(150)
	if got, want := c.account(), (account{0, 1024, 111, 140}); got != want {
		t.Errorf("account %+v after the end, want %+v", got, want)
	}
	c.window.reset()
	c.reset()
	if got := c.account(); got != (account{}) || c.window.head != 10 {
		t.Errorf("after reset: %+v", got)
	}
}

// The rate of an arm is the same over however many flows it is dealt out.
func TestWindowOfManyFlows(t *testing.T) {
	const size, slice, head = 1 << 16, 55e6, 5e6
	for _, c := range []struct {
		flows int
		rate  float64 // bit/s
	}{{1, 20e9}, {8, 1e9}, {32, 0.8e9}, {128, 8e9}, {640, 20e9}, {640, 12e9}} {
		w := &window{head: head}
		counts, flows := make([]sinkCounts, c.flows), make([]*active, c.flows)
		for i := range counts {
			counts[i] = newSinkCounts(size, w)
			counts[i].reset()
		}
		each := 8 * size / c.rate * 1e9 // ns that a message takes
		random := rand.New(rand.NewPCG(1, 2))
		for at := 1e9; at < 1e9+slice; {
			for _, i := range random.Perm(c.flows) {
				at += each
				counts[i].messages++
				counts[i].bytes += size
				counts[i].read(int64(at))
			}
		}
		for i := range flows {
			flows[i] = &active{plan: &load.Plan{Size: size}, tcp: true, done: frame{values: counts[i].account().values()}}
		}
		s, _ := sumStreams(flows)
		if got := float64(8*s.RateBytes) / float64(s.RateNs) * 1e9; math.Abs(got/c.rate-1) > 0.001 {
			t.Errorf("%d flows have %.3g bit/s, want %.3g", c.flows, got, c.rate)
		}
	}
}

// Of small messages the clock is read the more seldom the more there are, and few are lost to the rate.
func TestReadOften(t *testing.T) {
	for _, messages := range []int64{1, 63, 100, 127, 500, 1023, 5000, 65535} {
		c := newSinkCounts(1, &window{})
		c.reset()
		clock, reads := newClock(), 0
		for range messages {
			before := c.last
			if c.add(clock); c.last.bytes != before.bytes {
				reads++
			}
		}
		if lost := messages - c.last.bytes; float64(lost) > 0.02*float64(messages) || messages > 50_000 && int64(reads) > messages/15 {
			t.Errorf("%d of %d messages are behind the last of %d readings", lost, messages, reads)
		}
	}
}
