package path_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// The loss that tests of the instrument make is there on the one arm, as large
// as asked for, and not on the other.
func TestLose(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Paths: []string{"routed", "routed"}})
	const sent, oneIn = 2000, 4
	for i, drop := range []uint32{oneIn, 0} {
		arm := l.Arms[i]
		testenv.Lose(t, arm.Server().Namespace, drop)
		server, client := traffic.ListenUDP(t, arm.Server()), traffic.ListenUDP(t, arm.Client())
		defer server.Close()
		defer client.Close()
		testenv.Must(t, server.SetReadBuffer(4<<20)) // all may wait there at once
		to := netip.MustParseAddrPort(server.LocalAddr().String())
		got := 0
		buf := make([]byte, 16)
		for n := range sent {
			_, err := client.WriteToUDPAddrPort(buf[:1], to)
			testenv.Must(t, err)
			if n%200 == 199 {
				got += drain(server.ReadFromUDPAddrPort, server.SetReadDeadline, buf)
			}
		}
		want := 0
		if drop > 0 {
			want = sent / int(drop)
		}
		if lost := sent - got; lost != want {
			t.Errorf("one in %d: lost %d of %d", drop, lost, sent)
		}
	}
}

// drain counts what can be read until nothing comes for a moment.
func drain(read func([]byte) (int, netip.AddrPort, error), until func(time.Time) error, buf []byte) (n int) {
	for {
		_ = until(time.Now().Add(50 * time.Millisecond))
		if _, _, err := read(buf); err != nil {
			return n
		}
		n++
	}
}
