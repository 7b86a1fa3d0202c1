package engine

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
)

// A stream with a rate sends what is due, never more, and its books balance. Whether it
// can hold the rate depends on the machine, and is no test.
func TestPace(t *testing.T) {
	for i, c := range []struct {
		load  load.Load
		rate  float64
		size  int
		flows int
		batch int
		asked int64 // in 100 ms and a head of 2 ms
	}{
		{udpBW, 10_000, 64, 1, 0, 1020},
		{udpBW, 10_000, 64, 4, 0, 1020},
		{udpBW, 50_000, 64, 1, 8, 5100},
		{tcpBW, 1e9, 1 << 16, 1, 0, 195},
		{tcpBW, 1e7, 1000, 3, 0, 129},
	} {
		t.Run(fmt.Sprintf("%s at %s, %d flows", c.load.Name, load.FormatRate(c.rate), c.flows), func(t *testing.T) {
			p := loopback(t, c.load.Name, 1, c.flows, c.size, 29000+20*i)
			p.Rate, p.Slice, p.Batch = c.rate, 100*time.Millisecond, c.batch
			var sent, asked int64
			for _, r := range run(t, p) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
				sent += r.Stream.SentMessages
				asked += r.Stream.AskedMessages
				if off := r.Stream.AskedMessages - c.asked; off < -2 || off > 2 {
					t.Errorf("%d messages due, want %d", r.Stream.AskedMessages, c.asked)
				}
				if r.Stream.SentMessages > r.Stream.AskedMessages || r.Stream.RecvMessages > r.Stream.SentMessages {
					t.Errorf("%d asked, %d sent, %d received", r.Stream.AskedMessages, r.Stream.SentMessages, r.Stream.RecvMessages)
				}
				if took := time.Duration(r.Stream.SendNs); took > 2*p.Slice {
					t.Logf("a slice of %v took %v", p.Slice, took)
				}
			}
			if sent == 0 || asked == 0 {
				t.Error("nothing was sent")
			}
		})
	}
}

// A message of TCP goes in parts of a segment, the last one shorter.
func TestParts(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, peer := socket{fd: pair[0]}, socket{fd: pair[1]}
	defer s.close()
	defer peer.close()
	a := &active{tcp: true, conn: s, plan: &load.Plan{Size: 450}, segment: 100, buf: make([]byte, 450)}
	buf := make([]byte, 2000)
	for i, c := range []struct {
		n              int
		wait           bool
		bytes, partial int
		messages       int64
	}{{3, true, 300, 300, 0}, {1, false, 100, 400, 0}, {2, false, 150, 100, 1}, {9, true, 800, 0, 3}, {0, true, 0, 0, 3}} {
		went, err := a.sendSome(c.n, c.wait)
		if err != nil || went != c.n || a.partial != c.partial || a.sent.messages != c.messages {
			t.Errorf("call %d: %d parts of %d went (%v); %d bytes of a message, %d messages", i, went, c.n, err, a.partial, a.sent.messages)
		}
		if got, _ := peer.recvNow(buf); got != c.bytes {
			t.Errorf("call %d: %d bytes came, want %d", i, got, c.bytes)
		}
	}
	// Without waiting, what a full connection does not take is not counted.
	full, release := deafPeer(t)
	defer release()
	a.conn = full
	if went, err := a.sendSome(5, false); went != 0 || err != nil || a.sent.messages != 3 {
		t.Errorf("%d parts went into a full connection: %v", went, err)
	}
}

// A burst of a message that is larger than one goes in one call, and so does one over its end.
func TestLargeMessageCalls(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0) // it keeps calls apart
	if err != nil {
		t.Fatal(err)
	}
	s, peer := socket{fd: pair[0]}, socket{fd: pair[1]}
	defer s.close()
	defer peer.close()
	const size = 3950 // 40 parts, the last one of 50 bytes
	a := &active{tcp: true, conn: s, plan: &load.Plan{Size: size}, segment: 100, buf: make([]byte, size)}
	buf := make([]byte, 2*size)
	for i, c := range []struct {
		n, bytes, partial int
		messages          int64
	}{{32, 3200, 3200, 0}, {32, 3150, 2400, 1}, {16, 1550, 0, 2}, {32, 3200, 3200, 2}} {
		went, err := a.sendSome(c.n, true)
		if err != nil || went != c.n || a.partial != c.partial || a.sent.messages != c.messages {
			t.Errorf("call %d: %d parts of %d went (%v); %d bytes of a message, %d messages", i, went, c.n, err, a.partial, a.sent.messages)
		}
		if got, _ := peer.recvNow(buf); got != c.bytes {
			t.Errorf("call %d: %d bytes came at once, want %d", i, got, c.bytes)
		}
	}
}

// calledSender sends all that it is told to, and counts the calls.
type calledSender struct{ calls, sent int }

func (c *calledSender) send(socket) (int, error) { panic("not of a stream with a rate") }

func (c *calledSender) sendSome(_ socket, n int) (int, error) {
	c.calls++
	c.sent += n
	return n, nil
}

// Flows that take turns make a call only for what they owe.
func TestTurnsCalls(t *testing.T) {
	var out calledSender
	g := &flowGroup{}
	for range 8 {
		g.flows = append(g.flows, &active{plan: &load.Plan{Size: 64}, buf: make([]byte, 64), segment: 64, out: &out})
	}
	for due := 1; due <= 16; due++ {
		if went, err := g.SendParts(due, 1); went != 1 || err != nil {
			t.Fatalf("%d messages went, %v", went, err)
		}
	}
	if out.calls != 16 || out.sent != 16 {
		t.Errorf("%d calls for %d messages, want 16", out.calls, out.sent)
	}
}
