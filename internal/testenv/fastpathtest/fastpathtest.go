// Package fastpathtest checks what the fast path of a lab's arm carries, for tests of
// the fast path and of the paths below it.
package fastpathtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// WithFlow opens a UDP flow between the pods of a path, in which each datagram is
// answered; exchange sends one and waits for the answer.
func WithFlow(t *testing.T, arm lab.Arm, with func(exchange func(wait time.Duration) error)) {
	t.Helper()
	server, client := traffic.ListenUDP(t, arm.Server()), traffic.ListenUDP(t, arm.Client())
	defer traffic.EchoUDP(server)()
	defer client.Close()
	to := server.LocalAddr().(*net.UDPAddr).AddrPort()
	n := uint64(0)
	with(func(wait time.Duration) error {
		n++
		ping := binary.BigEndian.AppendUint64(nil, n)
		if _, err := client.WriteToUDPAddrPort(ping, to); err != nil {
			return err
		}
		testenv.Must(t, client.SetReadDeadline(time.Now().Add(wait)))
		for buf := make([]byte, 64); ; { // answers that come late are not this one's
			if got, _, err := client.ReadFromUDPAddrPort(buf); err != nil || bytes.Equal(buf[:got], ping) {
				return err
			}
		}
	})
}

// WaitCarried exchanges datagrams until a hundred of them have been carried both
// ways on both machines.
func WaitCarried(t *testing.T, arm lab.Arm, exchange func(wait time.Duration) error) {
	t.Helper()
	before := CarriedPackets(t, arm)
	for end := time.Now().Add(testenv.Timeout); ; {
		testenv.Must(t, exchange(testenv.Timeout))
		least := ^uint64(0)
		for i, now := range CarriedPackets(t, arm) {
			least = min(least, now-before[i])
		}
		switch {
		case least >= 100:
			return
		case time.Now().After(end):
			t.Fatalf("after %v of exchanges, machines carried %v, and %v before", testenv.Timeout, CarriedPackets(t, arm), before)
		}
	}
}

// CarriedPackets is how many packets were carried: out and in of the first machine, then of
// the second. A machine without pins has none.
func CarriedPackets(t testing.TB, arm lab.Arm) (packets []uint64) {
	t.Helper()
	for _, pins := range arm.Pins {
		if pins == "" {
			continue
		}
		stats, err := fastpath.ReadStats(pins)
		testenv.Must(t, err)
		packets = append(packets, stats[bpf.CarriedOut].Packets, stats[bpf.CarriedIn].Packets)
	}
	if len(packets) == 0 {
		testenv.Must(t, errors.New("there is no fast path"))
	}
	return packets
}

// WaitAnswered exchanges datagrams until three in a row are answered, or are not.
func WaitAnswered(t *testing.T, exchange func(wait time.Duration) error, answered bool) {
	t.Helper()
	end := time.Now().Add(testenv.Timeout)
	for row := 0; row < 3; {
		row++
		if err := exchange(100 * time.Millisecond); (err == nil) != answered {
			row = 0
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, datagrams are still not (answered: %v)", testenv.Timeout, answered)
		}
	}
}

// CheckForbid: a flow is carried until a rule of a machine forbids it, and
// after that again.
func CheckForbid(t *testing.T, arm lab.Arm, m lab.Machine) {
	t.Helper()
	WithFlow(t, arm, func(exchange func(time.Duration) error) {
		WaitCarried(t, arm, exchange)
		allow := testenv.Forbid(t, m.Namespace)
		WaitAnswered(t, exchange, false)
		allow()
		WaitAnswered(t, exchange, true)
		WaitCarried(t, arm, exchange)
	})
}
