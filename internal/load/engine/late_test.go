package engine

import (
	"testing"
	"time"
)

// TestLateReplies has every reply come after the timeout of its request: they
// are lost, most are seen late, and they are not in the figures.
func TestLateReplies(t *testing.T) {
	p := loopback(t, "udp_lat", 1, 1, 16, 25100)
	p.Slice, p.Arms[0].Spin = 200*time.Millisecond, 3*minTimeout/2
	s, err := Serve(p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, err := startActive(udpLat, &p, 0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.stop()
	a.timeout = minTimeout // the warm-up of a whole run would have found the delay
	err = a.do(func(a *active) error {
		if err := a.begin(1); err != nil {
			return err
		}
		if err := a.conn.heat(true, a.timeout); err != nil {
			return err
		}
		if err := a.pingPong(0, p.Slice); err != nil {
			return err
		}
		return a.conn.heat(false, ioTimeout)
	})
	if err != nil {
		t.Fatal(err)
	}
	c := a.ping
	if c.late == 0 || c.lost == 0 || c.late > c.lost {
		t.Errorf("%d requests, %d lost, %d late", c.requests, c.lost, c.late)
	}
	// A client that was not let run for so long finds a reply there in spite of all.
	if 2*c.replies > c.requests {
		t.Errorf("late replies are in the figures: %d of %d, mean %d ns", c.replies, c.requests, c.rttSum/c.replies)
	}
}
