package e2e

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

const (
	tcpEstablished = 3 // enum tcp_conntrack
	tcpClose       = 8
)

// A connection that was carried and ends by an RST is closed to connection tracking of both
// hosts, as without the fast path: a rule for new connections meets the next one between the
// same ports. A forged RST closes none, and does not make it expire.
func TestFastPathResets(t *testing.T) {
	requireFastPath(t)
	l := testenv.Lab(t, lab.Options{Paths: append([]string{"vxlan"}, basicFastPaths...), Services: 30})
	for _, arm := range l.Arms {
		for _, c := range []struct {
			closes string
			server bool
		}{{"client", false}, {"server", true}} {
			t.Run(arm.Name+"/"+c.closes, func(t *testing.T) {
				client, server := carriedConnection(t, arm)
				source := client.LocalAddr().(*net.TCPAddr).AddrPort().Port()
				time.Sleep(host.ScaleTimeout(100 * time.Millisecond)) // for the delayed acknowledgement
				forgeReset(t, l.Machines[1], client, server)
				awaitConnection(t, l.Machines[0], source, "after a forged RST", func(state uint8, left time.Duration) bool {
					return state == tcpEstablished && left > time.Minute
				})
				exchangeMany(t, client, server, 30)
				end := client
				if c.server {
					end = server
				}
				testenv.Must(t, end.SetLinger(0))
				testenv.Must(t, end.Close())
				for _, m := range l.Machines {
					awaitConnection(t, m, source, "after the RST", func(state uint8, _ time.Duration) bool { return state == tcpClose })
				}
			})
		}
	}
}

// awaitConnection waits 100 ms until the connection from a port is in a state on a host.
func awaitConnection(t *testing.T, m lab.Machine, source uint16, when string, wanted func(state uint8, left time.Duration) bool) {
	t.Helper()
	time.Sleep(20 * time.Millisecond) // until the packet has arrived
	for deadline := time.Now().Add(host.ScaleTimeout(100 * time.Millisecond)); ; time.Sleep(time.Millisecond) {
		state, left := connectionState(t, m, source)
		if wanted(state, left) {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s %s has the connection in state %d, for %v more", when, m.Name, state, left)
			return
		}
	}
}

// carriedConnection is a connection between the pods of a path that is carried both ways.
func carriedConnection(t *testing.T, arm lab.Arm) (client, server *net.TCPConn) {
	t.Helper()
	var listener *net.TCPListener
	testenv.Must(t, host.Do(arm.Server().Namespace, func() (err error) {
		listener, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: arm.Server().Addr.AsSlice()})
		return err
	}))
	defer listener.Close()
	client = dial(t, arm.Client(), listener.Addr().(*net.TCPAddr).AddrPort()).(*net.TCPConn)
	server, err := listener.AcceptTCP()
	testenv.Must(t, err)
	t.Cleanup(func() { server.Close() })
	if len(arm.Pins) == 0 {
		exchangeMany(t, client, server, 30)
		return client, server
	}
	before := fastpathtest.CarriedPackets(t, arm)
	for deadline := time.Now().Add(testenv.Timeout); ; {
		exchangeMany(t, client, server, 30)
		now := fastpathtest.CarriedPackets(t, arm)
		if increased(before, now) {
			return client, server
		}
		if time.Now().After(deadline) {
			t.Fatalf("the connection is not carried: %v packets, and %v before", now, before)
		}
	}
}

func exchangeMany(t *testing.T, a, b io.ReadWriter, times int) {
	t.Helper()
	said, heard := []byte("a short request"), make([]byte, 15)
	for range times {
		for _, way := range [][2]io.ReadWriter{{a, b}, {b, a}} {
			_, err := way[0].Write(said)
			testenv.Must(t, err)
			_, err = io.ReadFull(way[1], heard)
			testenv.Must(t, err)
			if !bytes.Equal(said, heard) {
				t.Fatalf("%q arrived, want %q", heard, said)
			}
		}
	}
}

// connectionState is the state of the connection from a port, and for how long it lives.
func connectionState(t *testing.T, m lab.Machine, source uint16) (state uint8, left time.Duration) {
	t.Helper()
	c := tracking(t, m)
	defer c.Close()
	all, err := c.Dump(nil)
	testenv.Must(t, err)
	for _, f := range all {
		if f.TupleOrig.Proto.Protocol == unix.IPPROTO_TCP && f.TupleOrig.Proto.SourcePort == source && f.ProtoInfo.TCP != nil {
			return f.ProtoInfo.TCP.State, time.Duration(f.Timeout) * time.Second
		}
	}
	return 0, 0
}

// forgeReset sends an RST with an old sequence number to the client, from the server's host and
// in the name of its pod.
func forgeReset(t *testing.T, m lab.Machine, client, server *net.TCPConn) {
	t.Helper()
	from, to := server.LocalAddr().(*net.TCPAddr).AddrPort(), client.LocalAddr().(*net.TCPAddr).AddrPort()
	segment := tcp4{from: from.Port(), to: to.Port(), seq: sendSequence(t, server) - 9, ack: sendSequence(t, client), flags: rst | ack, window: 1000}
	packet := segment.packetIn(ip4{src: from.Addr(), dst: to.Addr(), ttl: 64}).bytes()
	testenv.Must(t, host.Do(m.Namespace, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: to.Addr().As4()})
	}))
}

// sendSequence is the sequence number of what a socket sends next.
func sendSequence(t *testing.T, c *net.TCPConn) (sequence uint32) {
	t.Helper()
	const sendQueue, offWithoutProbe = 2, -1 // TCP_SEND_QUEUE, TCP_REPAIR_OFF_NO_WP
	raw, err := c.SyscallConn()
	testenv.Must(t, err)
	testenv.Must(t, errors.Join(raw.Control(func(fd uintptr) {
		var n int
		err = errors.Join(
			unix.SetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_REPAIR, 1),
			unix.SetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_REPAIR_QUEUE, sendQueue),
		)
		if err == nil {
			n, err = unix.GetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_QUEUE_SEQ)
		}
		err = errors.Join(err, unix.SetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_REPAIR, offWithoutProbe))
		sequence = uint32(n)
	}), err))
	return sequence
}
