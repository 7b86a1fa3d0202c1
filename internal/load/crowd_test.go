package load

import (
	"context"
	"net"
	"testing"
	"time"
)

// TestCrowd wants every flow of many served alike by one thread at either end, with
// small messages and with the largest ones, and threads for larger ones.
func TestCrowd(t *testing.T) {
	const flows = 40
	port := 27000
	for _, name := range []string{"udp_rr", "tcp_rr"} {
		for _, size := range []int{1, crowdSize, crowdSize + 1} {
			port += 2 * flows
			p := loopback(t, name, 1, flows, size, port)
			t.Run(CellName(name, size, flows, 0), func(t *testing.T) {
				l, err := Find(name)
				if err != nil {
					t.Fatal(err)
				}
				s, err := Serve(p, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				h := openHere(context.Background(), l, &p, []int{0}, nil)
				if got, want := len(h.arms[0]) > 0 && h.crowds[0] != nil, size <= crowdSize; got != want {
					t.Errorf("shares a thread: %v, want %v", got, want)
				}
				for round := range 3 {
					r := h.Measure(0, round)
					check(t, l, p, r)
					t.Logf("%d replies in %v", r.Latency.Replies, r.Elapsed)
					for flow, a := range h.arms[0] {
						if a.ping.replies == 0 {
							t.Errorf("round %d: no reply on flow %d of %d in all", round, flow, r.Latency.Replies)
						}
					}
				}
				h.Close()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestCrowdLost is TestLostReplies with several flows on one thread: each waits for
// its own, and holds up no other.
func TestCrowdLost(t *testing.T) {
	const flows = 3
	p := loopback(t, "udp_rr", 1, flows, 1, 27600)
	p.Slice = 100 * time.Millisecond
	done := make(chan struct{})
	for i := range flows {
		server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 27600 + i})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { server.Close(); <-done }()
		go func() { withhold(server, p.Token); done <- struct{}{} }()
	}
	start := time.Now()
	results, err := Run(context.Background(), p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var lost int64
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		checkPings(t, r.Latency)
		lost += r.Latency.Lost
		if mean, timeout := time.Duration(r.Latency.RTTSum/r.Latency.Replies), time.Duration(r.Latency.Timeout); mean >= timeout {
			t.Errorf("mean of %v: the timeouts of %v are in it", mean, timeout)
		}
	}
	if lost == 0 {
		t.Error("no loss was told")
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("three slices of %v took %v", p.Slice, took)
	}
}
