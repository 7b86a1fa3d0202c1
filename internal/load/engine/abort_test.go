package engine

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv/plain"
)

// stuckAt is a observer that does not return from the nth Begin before it is released.
type stuckAt struct {
	nth             int
	stuck, released chan struct{}
}

func (o *stuckAt) Begin(int) {
	if o.nth--; o.nth == 0 {
		close(o.stuck)
		<-o.released
	}
}
func (*stuckAt) End(int) {}

// TestAborted: a series whose server is lost ends long before its ends give up by
// themselves, with what was measured until then.
func TestAborted(t *testing.T) {
	t.Parallel() // it waits
	port := 26500
	for _, name := range []string{"tcp_lat", "udp_lat", "tcp_bw", "udp_bw", "tcp_crr", "probe"} {
		port += 16
		p := loopback(t, name, 1, 1, 64, port)
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits
			hang := &stuckAt{2, make(chan struct{}), make(chan struct{})}
			s, err := Serve(p, hang, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(context.Background())
			var lost time.Time
			go func() {
				<-hang.stuck
				lost = time.Now()
				cancel(ErrAborted)
			}()
			results, err := Run(ctx, p, nil, nil)
			if took := time.Since(lost); lost.IsZero() || took > ioTimeout-time.Second {
				t.Errorf("it ended %v after the server was lost", took)
			}
			if !errors.Is(err, context.Canceled) || len(results) != 1 || results[0].Err != nil {
				t.Errorf("%+v, %v", results, err)
			}
			close(hang.released)
			_ = s.Close()
		})
	}
}

// TestUnanswered: where nothing answers, the error names the ports and the direction.
func TestUnanswered(t *testing.T) {
	plain.SkipShort(t) // until the other end should have answered
	t.Parallel()
	p := loopback(t, "udp_lat", 1, 1, 1, 27900)
	silent, err := net.ListenPacket("udp", "127.0.0.1:27900")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	began := time.Now()
	_, err = startActive(udpLat, &p, 0, 0, nil)
	if err == nil || !errors.Is(err, errNoAnswer) || !strings.Contains(err.Error(), "by udp from 127.0.0.1, port 28900, to 127.0.0.1, port 27900") {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}
