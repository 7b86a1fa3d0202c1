package engine

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/goodput"
	"github.com/venturi-net/venturi/internal/verr"
)

// A response of another size than the request is read whole, and known by the number of the
// request, with one flow and with several on a thread.
func TestResponse(t *testing.T) {
	port := 27000
	for _, name := range []string{"tcp_lat", "udp_lat", "tcp_rr", "udp_rr", "tcp_crr"} {
		l, err := load.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ size, response, flows int }{{1, 16 << 10, 1}, {16 << 10, 1, 1}, {100, 9, 3}, {5, 3000, 2}, {1, 64, 1}} {
			t.Run(fmt.Sprintf("%s/%d/%d/%d", name, c.size, c.response, c.flows), func(t *testing.T) {
				patiently(t, func(slice time.Duration) (failed error) {
					port += 16
					p := loopback(t, name, 1, c.flows, c.size, port)
					p.Response, p.Slice = c.response, slice
					brief(&p)
					for _, r := range run(t, p) {
						if failed = problems(l, p, r); failed == nil && c.flows > 1 && len(r.Latency.PerFlow) != c.flows {
							failed = fmt.Errorf("%d flows of %d", len(r.Latency.PerFlow), c.flows)
						}
						if failed != nil {
							return failed
						}
					}
					return nil
				})
			})
		}
		if err := l.CheckResponse(-1); verr.Code(err) != verr.Usage {
			t.Errorf("%s with a response of -1: %v", name, err)
		}
	}
	for _, l := range []load.Load{tcpBW, probe, ping, quic} {
		if err := l.CheckResponse(100); verr.Code(err) != verr.Usage {
			t.Errorf("%s: %v", l.Name, err)
		}
	}
}

// Several datagrams of quic go out in a call, arrive as several, and none is taken for a frame.
func TestQUIC(t *testing.T) {
	patiently(t, func(slice time.Duration) error {
		p := loopback(t, "quic", 1, 1, 1200, 27900)
		p.Slice, p.Rate = slice, 20_000
		for _, r := range run(t, p) {
			if r.Err != nil {
				return r.Err
			}
			if s := r.Stream; s.RecvMessages == 0 || s.RecvMessages > s.SentMessages || s.RecvBytes != 1200*s.RecvMessages {
				return fmt.Errorf("%+v", s)
			}
		}
		return nil
	})
}

// Datagrams that were sent in a call are received in one, and counted each: without UDP_GRO the
// kernel would cut them apart before the socket.
func TestMergedDatagrams(t *testing.T) {
	p := loopback(t, "quic", 1, 1, 1200, 27950)
	a, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	file, err := a.(*net.UDPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	to := socket{fd: int(file.Fd())}
	receiver := &passive{conn: to, clock: newClock(), counts: goodput.New(p.Size, &goodput.Window{})}
	in := newMerged()
	if err := to.mergeReceived(); err != nil {
		t.Fatal(err)
	}
	from, err := dialIn("", "udp", "", netip.MustParseAddrPort("127.0.0.1:0"), a.LocalAddr().(*net.UDPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	defer from.close()
	out, err := newSegmenter(from, p.Size)
	if err != nil {
		t.Fatal(err)
	}
	const sent = 20
	if n, err := out.sendSome(from, sent); n != sent || err != nil {
		t.Fatalf("%d datagrams went: %v", n, err)
	}
	if err := to.setTimeout(unix.SO_RCVTIMEO, host.ScaleTimeout(10*time.Second)); err != nil {
		t.Fatal(err)
	}
	b, size, err := in.recv(to, 0)
	if err != nil || size != p.Size || len(b) != sent*p.Size {
		t.Fatalf("%d bytes came at once, in datagrams of %d, want %d of %d: %v", len(b), size, sent, p.Size, err)
	}
	if err := receiver.countMerged(&to, b, size); err != nil || receiver.counts.Messages() != sent {
		t.Errorf("%d datagrams are counted: %v", receiver.counts.Messages(), err)
	}
}
