package engine

import (
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/goodput"
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
	flow := func(a goodput.Account) *active {
		return &active{plan: plan, tcp: true, sent: sendCounts{messages: a.Messages, ns: 100}, done: frame{values: valuesOf(a)}}
	}
	datagrams := func(a goodput.Account) *active {
		f := flow(a)
		f.tcp = false
		return f
	}
	for name, c := range map[string]struct {
		flows        []*active
		messages, ns int64
	}{
		"one":      {[]*active{flow(goodput.Account{Messages: 60, Bytes: 50_000, From: 1000, To: 2000})}, 50, 1000},
		"in turns": {[]*active{flow(goodput.Account{Messages: 60, Bytes: 50_000, From: 1000, To: 1500}), flow(goodput.Account{Messages: 60, Bytes: 50_000, From: 1500, To: 2000})}, 100, 1000},
		"together": {[]*active{flow(goodput.Account{Messages: 60, Bytes: 50_000, From: 1000, To: 2000}), flow(goodput.Account{Messages: 60, Bytes: 50_000, From: 1100, To: 1900})}, 100, 1000},
		"starved":  {[]*active{flow(goodput.Account{Messages: 60, Bytes: 50_000, From: 1000, To: 2000}), flow(goodput.Account{Messages: 3, Bytes: 0, From: 0, To: 0})}, 50, 1000},

		"datagrams":                          {[]*active{datagrams(goodput.Account{Messages: 60, Bytes: 50_000, From: 1000, To: 1040})}, 50, 40},
		"datagrams that came all at the end": {[]*active{datagrams(goodput.Account{Messages: 60, Bytes: 50_000, From: 1000, To: 1039})}, 60, 100},
		"few datagrams":                      {[]*active{datagrams(goodput.Account{Messages: 3, Bytes: 0, From: 0, To: 0})}, 3, 100},
		"no datagrams":                       {[]*active{datagrams(goodput.Account{Messages: 0, Bytes: 0, From: 0, To: 0})}, 0, 0},
	} {
		s, elapsed := sumStreams(c.flows)
		if s.RateMessages != c.messages || s.RateNs != c.ns || s.RateBytes != 1000*c.messages || elapsed != 100*time.Nanosecond {
			t.Errorf("%s: %+v in %v", name, s, elapsed)
		}
	}
	s, _ := sumStreams([]*active{flow(goodput.Account{Messages: 3, Bytes: 0, From: 0, To: 0})})
	if s.RateMessages != 0 || s.RateNs != 0 || s.SentMessages != 3 || s.RecvMessages != 3 || s.RecvBytes != 3000 {
		t.Errorf("without a window: %+v", s)
	}
}
