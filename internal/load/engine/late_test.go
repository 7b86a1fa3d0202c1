package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/load"
)

// TestLateReplies has every reply come after the timeout of its request: they
// are lost, most are seen late, and they are not in the figures.
func TestLateReplies(t *testing.T) {
	p := loopback(t, "udp_lat", 1, 1, 16, 25100)
	p.Arms[0].Spin = 3 * minTimeout / 2
	patiently(t, func(slice time.Duration) error {
		p.Slice = slice
		return lateReplies(p)
	})
}

func lateReplies(p load.Plan) error {
	s, err := Serve(p, nil, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	a, err := startActive(udpLat, &p, 0, 0, nil)
	if err != nil {
		return err
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
	c := a.ping
	switch {
	case err != nil:
		return err
	case c.late == 0 || c.lost == 0 || c.late > c.lost:
		return fmt.Errorf("%d requests, %d lost, %d late", c.requests, c.lost, c.late)
	case 2*c.replies > c.requests: // a client that was not let run for so long finds a reply there in spite of all
		return fmt.Errorf("late replies are in the figures: %d of %d, mean %d ns", c.replies, c.requests, c.rttSum/c.replies)
	}
	return nil
}
