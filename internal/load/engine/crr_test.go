package engine

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestConnectionsLost talks to a server that refuses to answer some connections: each
// is counted, breaks no other off, and its time is in no figure.
func TestConnectionsLost(t *testing.T) {
	t.Parallel() // it waits
	for name, bad := range map[string]func(net.Conn, []net.Conn) []net.Conn{
		"reset":  func(c net.Conn, kept []net.Conn) []net.Conn { c.(*net.TCPConn).SetLinger(0); c.Close(); return kept },
		"silent": func(c net.Conn, kept []net.Conn) []net.Conn { return append(kept, c) },
		"short":  func(c net.Conn, kept []net.Conn) []net.Conn { c.Close(); return kept },
		"open":   func(c net.Conn, kept []net.Conn) []net.Conn { c.Write([]byte("x")); return append(kept, c) },
	} {
		t.Run(name, func(t *testing.T) {
			patiently(t, func(slice time.Duration) error {
				p := loopback(t, "tcp_crr", 1, 1, 2, 26100)
				p.Slice = slice
				l, err := net.Listen("tcp4", "127.0.0.1:26100")
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				go func() { defer close(done); answerMost(l, p.Token, bad) }()
				results, err := Run(context.Background(), p, nil, nil)
				l.Close()
				<-done
				if err != nil {
					t.Fatal(err)
				}
				return problemsOfLosses(results)
			})
		})
	}
}

// TestConnectionsWrong does not go on with a server that answers something else.
func TestConnectionsWrong(t *testing.T) {
	p := loopback(t, "tcp_crr", 1, 1, 2, 26150)
	l, err := net.Listen("tcp4", "127.0.0.1:26150")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		answerMost(l, p.Token, func(c net.Conn, kept []net.Conn) []net.Conn {
			c.Write([]byte{0x7e, 0})
			c.Close()
			return kept
		})
	}()
	p.Slice = 500 * time.Millisecond
	results, err := Run(context.Background(), p, nil, nil)
	l.Close()
	<-done
	if err != nil || len(results) == 0 || !errors.Is(results[len(results)-1].Err, errNotSent) {
		t.Errorf("%+v, %v", results, err)
	}
}

// answerMost serves connections as the server does, but for one in 20 requests.
func answerMost(l net.Listener, token uint64, bad func(net.Conn, []net.Conn) []net.Conn) {
	var kept []net.Conn
	defer func() {
		for _, c := range kept {
			c.Close()
		}
	}()
	buf := make([]byte, frameSize)
	for n := 1; ; {
		c, err := l.Accept()
		if err != nil {
			return
		}
		size, err := c.Read(buf)
		if f, ok := parseFrame(buf[:size], token); ok {
			answer := frame{kind: frameReady, token: token, slice: f.slice}
			if f.kind == frameEnd {
				answer.kind = frameDone
			}
			answer.put(buf)
		} else if n++; err != nil || n%20 == 0 {
			kept = bad(c, kept)
			continue
		}
		c.Write(buf[:size])
		c.Close()
	}
}

// TestConnectRefused gives an arm up that nobody serves, in time.
func TestConnectRefused(t *testing.T) {
	p := loopback(t, "tcp_crr", 1, 1, 1, 26200)
	a := &active{load: tcpCRR, plan: &p, buf: make([]byte, frameSize), clock: newClock(), answerTimeout: 50 * time.Millisecond}
	if err := a.connect(0); err != nil {
		t.Fatal(err)
	}
	_, err := a.ask(frame{kind: frameHello}, frameReady)
	if !errors.Is(err, errNoAnswer) || !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("error %v", err)
	}
	if got, err := a.transact(a.buf[:1]); got || err != nil {
		t.Errorf("a refused connection: %v, %v", got, err)
	}
	p.Arms[0].Ends[0].From.Addr = netip.MustParseAddr("192.0.2.1") // nobody's
	if err := a.connect(0); err != nil {
		t.Fatal(err)
	}
	if _, err := a.transact(a.buf[:1]); !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Errorf("from an address that is not here: %v", err)
	}
}
