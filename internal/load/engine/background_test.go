package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/verr"
)

// A stream runs beside each slice, on flows of its own, and its books balance. The load's do
// as they do without it.
func TestBackground(t *testing.T) {
	port := 30000
	for _, c := range []struct {
		load   load.Load
		beside load.Background
	}{
		{probe, load.Background{Load: "udp_bw", Size: 64, Flows: 1, Rate: 5000}},
		{probe, load.Background{Load: "tcp_bw", Size: 1 << 14, Flows: 2, Rate: 1e8}},
		{udpLat, load.Background{Load: "tcp_bw", Size: 1 << 16, Flows: 1}},
		{tcpRR, load.Background{Load: "udp_bw", Size: 1, Flows: 2}},
	} {
		t.Run(fmt.Sprintf("%s beside %s at %v", c.load.Name, c.beside.Load, c.beside.Rate), func(t *testing.T) {
			c.beside.ClientCPU, c.beside.ServerCPU = -1, -1
			patiently(t, func(slice time.Duration) (failed error) {
				port += 20
				p := loopback(t, c.load.Name, 2, 1, 64, port)
				p.Arms[1].ServerPort, p.Arms[1].ClientPort = port+5, port+1005
				p.Slice, p.Background = slice, &c.beside
				brief(&p)
				for _, r := range run(t, p) {
					failed = errors.Join(failed, problems(c.load, p, r))
					if r.Err != nil {
						continue
					}
					b := r.Background
					if b == nil || b.SentMessages == 0 || b.RecvMessages > b.SentMessages {
						return errors.Join(failed, fmt.Errorf("beside: %+v", b))
					}
					if c.beside.Rate > 0 && b.SentMessages > b.AskedMessages {
						failed = errors.Join(failed, fmt.Errorf("%d sent, %d asked", b.SentMessages, b.AskedMessages))
					}
					if c.beside.Load == "tcp_bw" && b.RecvMessages != b.SentMessages {
						failed = errors.Join(failed, fmt.Errorf("TCP lost messages: %d sent, %d received", b.SentMessages, b.RecvMessages))
					}
				}
				return failed
			})
		})
	}
}

// An arm whose background cannot be opened is not measured without it.
func TestBackgroundFails(t *testing.T) {
	p := loopback(t, "udp_lat", 1, 1, 64, 30800)
	p.Background = &load.Background{Load: "tcp_bw", Size: 1000, Flows: 1, ClientCPU: -1, ServerCPU: -1}
	taken, err := net.Listen("tcp4", "127.0.0.1:30801") // where the background would listen
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s, err := Serve(p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if why := s.FailedArms()[0]; !errors.Is(why, syscall.EADDRINUSE) || !strings.Contains(why.Error(), "of background") {
		t.Errorf("the arm is served, or fails otherwise: %v", why)
	}
	p.Background.Load = "tcp_lat"
	if _, err := Open(context.Background(), p, nil, nil); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "cannot run tcp_lat beside a load") {
		t.Errorf("a ping-pong runs beside, or fails otherwise: %v", err)
	}
}
