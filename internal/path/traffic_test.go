package path_test

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
)

// patience bounds every wait of these tests; nothing is asserted on speed.
var patience = host.ScaleTimeout(30 * time.Second)

const content = 4 << 20 // bytes over TCP, each way

// checkTCP sends random bytes from one end, which the other sends back as they
// come.
func checkTCP(t *testing.T, from, to host.Endpoint) {
	t.Helper()
	var listener net.Listener
	must(t, host.Do(to.Namespace, func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(to.Addr, 0).String())
		return err
	}))
	defer listener.Close()
	echoed := make(chan error, 1)
	go func() { echoed <- echoTCP(listener) }()

	must(t, host.Do(from.Namespace, func() error {
		return carryTCP(from.Addr, listener.Addr().(*net.TCPAddr).AddrPort())
	}))
	must(t, <-echoed)
}

// carryTCP sends random bytes to an echo, and wants them back. It dials in the
// calling thread's namespace: that may go on in another goroutine, and so outside
// of it, only when there are several addresses to try.
func carryTCP(from netip.Addr, to netip.AddrPort) error {
	d := net.Dialer{Timeout: patience, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	conn, err := d.Dial("tcp4", to.String())
	if err != nil {
		return fmt.Errorf("TCP %s to %s: %w", from, to, err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	sent := make([]byte, content)
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

func echoTCP(listener net.Listener) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, err = io.Copy(conn, conn)
	return err
}

// pair is two ends of traffic.
type pair struct{ from, to host.Endpoint }

// checkUDP sends one datagram of each size, which the other end sends back.
func checkUDP(t *testing.T, from, to host.Endpoint, sizes []int) {
	t.Helper()
	for _, size := range sizes {
		payload := make([]byte, size)
		rand.Read(payload)
		if err := exchange(t, from, to, payload); err != nil {
			t.Errorf("UDP %s to %s, %d bytes: %v", from.Addr, to.Addr, size, err)
		}
	}
}

// exchange sends a datagram, which the other end sends back.
func exchange(t *testing.T, from, to host.Endpoint, payload []byte) error {
	t.Helper()
	server, client := listenUDP(t, to), listenUDP(t, from)
	stop := echoUDP(server)
	defer func() { client.Close(); stop() }()
	return pingUDP(client, server.LocalAddr().(*net.UDPAddr).AddrPort(), payload)
}

// echoUDP sends back what a socket gets, until stop closes the socket.
func echoUDP(server *net.UDPConn) (stop func()) {
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

// tries is how often a datagram is sent: UDP may lose, and a lost one is no
// error of the path.
const tries = 6

// firstWait is for the first answer; for each further one it is twice as long.
var firstWait = patience / 100

func pingUDP(client *net.UDPConn, to netip.AddrPort, payload []byte) (err error) {
	got := make([]byte, 1<<16)
	for try := range tries {
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

func listenUDP(t *testing.T, at host.Endpoint) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	must(t, host.Do(at.Namespace, func() (err error) {
		conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at.Addr, 0)))
		return err
	}))
	return conn
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
