package e2e

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// Connections that are carried come back to the slow path whenever rules change or
// connections are forgotten, in the middle of what they send, and go on there:
// their windows have moved on since connection tracking saw a packet of them, and
// the rules of Services drop what is out of window.
func TestFastPathConnectionsLiveOnThroughChanges(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	l := testenv.Lab(t, lab.Options{Paths: withTunnels(basicFastPaths...), Services: 30})
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) {
			conn := dial(t, arm.Client(), serve(t, arm.Server()))
			stop, done := make(chan struct{}), make(chan error, 1)
			var echoed atomic.Int64
			go func() { done <- chunks(conn, stop, &echoed) }()
			before := fastpathtest.CarriedPackets(t, arm)
			for change := range 40 {
				m := l.Machines[change%2]
				if change%8 >= 6 && change >= 24 {
					forgetConnections(t, m)
				} else {
					shell(t, m, nil, "nft 'add table ip nothing; delete table ip nothing'")
				}
				time.Sleep(5 * time.Millisecond) // it is carried for a while, or not
				if change == 23 {
					// It goes on as what connection tracking knew of it from the start.
					for was, end := echoed.Load(), time.Now().Add(testenv.Timeout); echoed.Load() < was+100; time.Sleep(pace) {
						if time.Now().After(end) {
							t.Fatalf("after %v, the connection does not go on: %d chunks were echoed before, and %d now", testenv.Timeout, was, echoed.Load())
						}
					}
				}
			}
			close(stop)
			testenv.Must(t, <-done)
			now := fastpathtest.CarriedPackets(t, arm)
			t.Logf("echoed %d chunks; machines carried %v, and %v before", echoed.Load(), now, before)
			for i := range now {
				if now[i] == before[i] {
					t.Errorf("the connection was not carried: %v, and %v before", now, before)
					break
				}
			}
		})
	}
}

// dial opens a connection from a pod.
func dial(t testing.TB, from host.Endpoint, to netip.AddrPort) (conn net.Conn) {
	t.Helper()
	testenv.Must(t, host.Do(from.Namespace, func() (err error) {
		d := net.Dialer{Timeout: testenv.Timeout, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from.Addr, 0))}
		conn, err = d.Dial("tcp", to.String())
		return err
	}))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// chunks sends one after the other to who sends them back, until it is stopped.
func chunks(conn net.Conn, stop <-chan struct{}, echoed *atomic.Int64) error {
	chunk := make([]byte, 64<<10)
	back := make([]byte, len(chunk))
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		rand.Read(chunk)
		if err := conn.SetDeadline(time.Now().Add(testenv.Timeout)); err != nil {
			return err
		}
		if _, err := conn.Write(chunk); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, back); err != nil {
			return err
		}
		if !bytes.Equal(back, chunk) {
			return errors.New("what came back differs from what was sent")
		}
		echoed.Add(1)
	}
}

// requireTools skips a test where there is not what it changes machines with.
func requireTools(t *testing.T) {
	t.Helper()
	for _, name := range []string{"ip", "bridge", "nft", "iptables-nft", "nsenter"} {
		if _, err := exec.LookPath(name); err != nil && !testenv.Required() {
			t.Skipf("there is no %s here", name)
		}
	}
}
