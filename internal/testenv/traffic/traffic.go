// Package traffic sends content between the ends of a lab's paths and checks what arrives, and
// captures what crosses a device. Tests of paths and of the fast path share it.
package traffic

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// ContentBytes is how much goes over TCP, each way.
const ContentBytes = 4 << 20

// CheckTCP sends random bytes from one end, which the other sends back as they
// come.
func CheckTCP(t *testing.T, from, to host.Endpoint) {
	t.Helper()
	var listener net.Listener
	testenv.Must(t, host.Do(to.Namespace, func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(to.Addr, 0).String())
		return err
	}))
	defer listener.Close()
	echoed := make(chan error, 1)
	go func() { echoed <- EchoTCP(listener) }()

	testenv.Must(t, host.Do(from.Namespace, func() error {
		return CarryTCP(from.Addr, listener.Addr().(*net.TCPAddr).AddrPort())
	}))
	testenv.Must(t, <-echoed)
}

// CarryTCP sends random bytes to an echo, and wants them back. It dials in the
// calling thread's namespace: that may go on in another goroutine, and so outside
// of it, only when there are several addresses to try.
func CarryTCP(from netip.Addr, to netip.AddrPort) error {
	d := net.Dialer{Timeout: testenv.Timeout, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	conn, err := d.Dial("tcp", to.String())
	if err != nil {
		return fmt.Errorf("TCP %s to %s: %w", from, to, err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testenv.Timeout))
	sent := make([]byte, ContentBytes)
	rand.Read(sent)
	wrote := make(chan error, 1)
	go func() {
		_, err := conn.Write(sent)
		wrote <- errors.Join(err, conn.(*net.TCPConn).CloseWrite())
	}()
	got, err := io.ReadAll(conn)
	if err = errors.Join(err, <-wrote); err != nil {
		return fmt.Errorf("TCP %s to %s: %w", from, to, err)
	}
	if !bytes.Equal(got, sent) {
		return fmt.Errorf("TCP %s to %s: %d bytes came back and differ from the %d sent", from, to, len(got), len(sent))
	}
	return nil
}

// EchoTCP sends back what the next connection brings.
func EchoTCP(listener net.Listener) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(testenv.Timeout))
	_, err = io.Copy(conn, conn)
	return err
}

// CheckUDP sends one datagram of each size, which the other end sends back.
func CheckUDP(t *testing.T, from, to host.Endpoint, sizes []int) {
	t.Helper()
	for _, size := range sizes {
		payload := make([]byte, size)
		rand.Read(payload)
		if err := Exchange(t, from, to, payload); err != nil {
			t.Errorf("UDP %s to %s, %d bytes: %v", from.Addr, to.Addr, size, err)
		}
	}
}

// Exchange sends a datagram, which the other end sends back.
func Exchange(t *testing.T, from, to host.Endpoint, payload []byte) error {
	t.Helper()
	server, client := ListenUDP(t, to), ListenUDP(t, from)
	stop := EchoUDP(server)
	defer func() { client.Close(); stop() }()
	return PingUDP(client, server.LocalAddr().(*net.UDPAddr).AddrPort(), payload)
}

// EchoUDP sends back what a socket gets, until stop closes the socket.
func EchoUDP(server *net.UDPConn) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1<<16)
		for {
			n, peer, err := server.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = server.WriteToUDPAddrPort(buf[:n], peer)
		}
	}()
	return func() { server.Close(); <-done }
}

// Tries is how often a datagram is sent: UDP may lose, and a lost one is no
// error of the path.
const Tries = 6

// firstWait is for the first answer; for each further one it is twice as long.
var firstWait = testenv.Timeout / 100

// PingUDP sends a datagram, again if no answer comes, and wants it back.
func PingUDP(client *net.UDPConn, to netip.AddrPort, payload []byte) (err error) {
	got := make([]byte, 1<<16)
	for try := range Tries {
		if _, err = client.WriteToUDPAddrPort(payload, to); err != nil {
			return err
		}
		_ = client.SetReadDeadline(time.Now().Add(firstWait << try))
		var n int
		if n, _, err = client.ReadFromUDPAddrPort(got); err != nil {
			continue
		}
		if !bytes.Equal(got[:n], payload) {
			return fmt.Errorf("%d bytes came back and differ", n)
		}
		return nil
	}
	return err
}

// ListenUDP opens a socket at an end.
func ListenUDP(t *testing.T, at host.Endpoint) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	testenv.Must(t, host.Do(at.Namespace, func() (err error) {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at.Addr, 0)))
		return err
	}))
	return conn
}
