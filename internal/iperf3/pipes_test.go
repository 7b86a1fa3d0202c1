package iperf3

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"
)

// pipeNet is a network of pipes in memory. Both ends can run in a bubble of synctest, where no
// limit costs time, and what still runs at the end fails the test.
type pipeNet struct {
	accepted chan net.Conn
	closed   chan struct{}
	peers    sync.WaitGroup // who speaks on the other end

	mu     sync.Mutex
	conns  []net.Conn
	ports  int
	hellos net.Conn // to the server's socket that awaits UDP streams; nil: there is none
	text   []byte   // what streams of UDP carry to the server
}

func newPipeNet() *pipeNet {
	return &pipeNet{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

// close ends everything.
func (n *pipeNet) close() {
	_ = n.Close()
	n.mu.Lock()
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.mu.Unlock()
	n.peers.Wait()
}

// pipeConn is a pipe's end with addresses.
type pipeConn struct {
	net.Conn
	local, remote net.Addr
}

func (c pipeConn) LocalAddr() net.Addr  { return c.local }
func (c pipeConn) RemoteAddr() net.Addr { return c.remote }

var localhost = net.IPv4(127, 0, 0, 1)

// pipe connects two addresses.
func (n *pipeNet) pipe(client, server net.Addr) (clientEnd, serverEnd net.Conn) {
	a, b := net.Pipe()
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.closed: // a peer was about to connect
		_, _ = a.Close(), b.Close()
	default:
		n.conns = append(n.conns, a, b)
	}
	return pipeConn{a, client, server}, pipeConn{b, server, client}
}

// connect is a pipe from a new port of the client.
func (n *pipeNet) connect() (clientEnd, serverEnd net.Conn) {
	n.mu.Lock()
	n.ports++
	port := n.ports
	n.mu.Unlock()
	return n.pipe(&net.TCPAddr{IP: localhost, Port: port}, n.Addr())
}

// Accept implements [net.Listener].
func (n *pipeNet) Accept() (net.Conn, error) {
	select {
	case c := <-n.accepted:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (n *pipeNet) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.closed:
	default:
		close(n.closed)
	}
	return nil
}

// Addr implements [net.Listener].
func (n *pipeNet) Addr() net.Addr { return &net.TCPAddr{IP: localhost, Port: Port} }

// dialServer connects to whoever accepts.
func (n *pipeNet) dialServer() net.Conn {
	client, server := n.connect()
	select {
	case n.accepted <- server:
	case <-n.closed:
	}
	return client
}

// pipePacketConn is a socket for datagrams. The first byte of each says from which port it is.
type pipePacketConn struct{ net.Conn }

func (c pipePacketConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, err := c.Read(b)
	if n == 0 {
		return 0, nil, err
	}
	return copy(b, b[1:n]), &net.UDPAddr{IP: localhost, Port: 1000 + int(b[0])}, nil
}

func (c pipePacketConn) WriteTo(b []byte, _ net.Addr) (int, error) { return len(b), nil }

// listen implements [udpSockets].
func (n *pipeNet) listen(context.Context, *net.UDPAddr) (net.PacketConn, error) {
	client, server := n.connect()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hellos = client
	return pipePacketConn{server}, nil
}

// dial implements [udpSockets].
func (n *pipeNet) dial(_ context.Context, at *net.UDPAddr, peer net.Addr) (net.Conn, error) {
	client, server := n.pipe(peer, at)
	n.mu.Lock()
	text := n.text
	n.mu.Unlock()
	n.peers.Go(func() { take(client) })
	n.peers.Go(func() { say(client, text, atOnce) })
	return server, nil
}

// How a peer says what it has to say.
const (
	atOnce = iota
	slowly
	andGoes
	manners
)

func say(conn net.Conn, text []byte, manner byte) {
	if manner%manners != slowly {
		_, _ = conn.Write(text)
	} else {
		for i := range text {
			if _, err := conn.Write(text[i : i+1]); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	if manner%manners == andGoes {
		_ = conn.Close()
	}
}

// take reads a while and then no more: a stream is full some day.
func take(conn net.Conn) {
	buf := make([]byte, 4096)
	for range 100 {
		if _, err := conn.Read(buf); err != nil {
			return
		}
	}
}

// converse is one test of a client, which opens streams when it is told to. It gives what the
// server said until it ended the test.
func (n *pipeNet) converse(text []byte, streams int, manner byte) string {
	cookie := newCookie()
	control := n.dialServer()
	defer control.Close()
	n.peers.Go(func() {
		_, _ = control.Write(cookie[:])
		say(control, text, manner)
	})
	var said strings.Builder
	buf := make([]byte, 4096)
	for opened := false; ; {
		k, err := control.Read(buf)
		said.Write(buf[:k])
		if err != nil {
			return said.String()
		}
		if opened || !strings.Contains(said.String(), string([]byte{byte(createStreams)})) {
			continue
		}
		opened = true
		n.mu.Lock()
		hellos := n.hellos
		n.text = text
		n.mu.Unlock()
		for i := range streams {
			n.peers.Go(func() {
				data := n.dialServer()
				n.peers.Go(func() { take(data) })
				_, _ = data.Write(cookie[:])
				// If it comes after the end of its test, it is a client that asks for nothing.
				_, _ = data.Write(append(make([]byte, 4), text...))
			})
			if hellos != nil {
				n.peers.Go(func() { say(hellos, append([]byte{byte(i % 3)}, udpHello...), atOnce) })
			}
		}
	}
}
