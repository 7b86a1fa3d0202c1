// Package reach tries whether the ends of paths reach each other before anything is measured,
// and tells which way a firewall is: the first message does not arrive, or its answer does not.
//
// Both sides are told by a controller, by calls to their agents. A listener answers nobody who
// does not know the secret of the trial.
package reach

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// Socket is where one side of a path opens its end.
type Socket struct {
	Namespace string     `json:"namespace"` // file
	Addr      netip.Addr `json:"addr"`
}

// Trial is a path that is tried by one transport.
type Trial struct {
	Transport string `json:"transport"` // tcp or udp
	From      Socket `json:"from"`
	To        Socket `json:"to"`
	Port      int    `json:"port"` // at To; 0: not yet known
}

// Secret is a secret of both sides of a trial.
type Secret [32]byte

// Limits: of a trial, and between two first messages of it. A card that has just got another namespace takes seconds to
// have its link again.
var (
	trialLimit = host.ScaleTimeout(5 * time.Second)
	trialEvery = host.ScaleTimeout(250 * time.Millisecond)
)

// strangerLimit is how long a connection may say nothing; tests change it.
var strangerLimit = time.Second

const (
	// maxStrangers is how many connections of a listener may take that time at once; the oldest makes
	// room for a new one.
	maxStrangers = 128
	// acceptPause is how long a listener waits that has no room for a connection.
	acceptPause = 10 * time.Millisecond
)

// listener waits for the first message of one trial, and answers it.
type listener struct {
	socket    io.Closer
	namespace string // file
	tcp       bool
	address   netip.AddrPort
	mu        sync.Mutex
	got       bool // the first message
}

// Ports of listeners: those of the servers of loads.
const firstPort, portCount = 20000, 10000

// portStep is from one port to the next that is tried. Nothing divides it and portCount, so all
// ports come before one comes again.
const portStep = 101

// ports gives ports, each once, from one that the secret chooses.
type ports struct{ next, left int }

func newPorts(secret Secret) *ports {
	return &ports{next: (int(secret[0])<<8 + int(secret[1])) % portCount, left: portCount}
}

// take gives the next port; false: there is none.
func (p *ports) take() (port int, ok bool) {
	if p.left == 0 {
		return 0, false
	}
	port = firstPort + p.next
	p.next, p.left = (p.next+portStep)%portCount, p.left-1
	return port, true
}

// listen opens the server's end of a trial, at a port that nobody has.
func listen(t Trial, secret Secret, ports *ports) (l *listener, err error) {
	l = &listener{namespace: t.To.Namespace, tcp: t.Transport == "tcp"}
	err = host.Do(t.To.Namespace, func() error {
		failed := errors.New("all ports are in use")
		for port, ok := ports.take(); ok; port, ok = ports.take() {
			l.address = netip.AddrPortFrom(t.To.Addr, uint16(port))
			if failed = l.open(secret); !errors.Is(failed, syscall.EADDRINUSE) {
				break
			}
		}
		return failed
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (l *listener) open(secret Secret) error {
	if l.tcp {
		socket, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(l.address))
		if err != nil {
			return err
		}
		l.socket = socket
		go l.accept(socket, secret)
		return nil
	}
	socket, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(l.address))
	if err != nil {
		return err
	}
	l.socket = socket
	go l.receive(socket, secret)
	return nil
}

// accept answers connections until the listener is closed.
func (l *listener) accept(socket *net.TCPListener, secret Secret) {
	var unknown strangers
	for {
		conn, err := socket.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, for one: the connection still waits
			time.Sleep(acceptPause)
			continue
		}
		_ = conn.SetLinger(0)
		unknown.add(conn)
		go func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(strangerLimit))
			var got Secret
			_, err := io.ReadFull(conn, got[:])
			admitted := err == nil && l.admits(got[:], secret)
			unknown.remove(conn)
			if admitted {
				_, _ = conn.Write(got[:])
				_, _ = conn.Read(got[:]) // until the other side has it
			}
		}()
	}
}

// strangers are the connections of a listener that have not yet said the secret, the oldest first.
type strangers struct {
	mu    sync.Mutex
	conns []*net.TCPConn
}

// add makes room for a connection.
func (s *strangers) add(conn *net.TCPConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) == maxStrangers {
		_ = s.conns[0].Close()
		s.conns = s.conns[1:]
	}
	s.conns = append(s.conns, conn)
}

// remove is for one that is no stranger any more, or has ended.
func (s *strangers) remove(conn *net.TCPConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = slices.DeleteFunc(s.conns, func(c *net.TCPConn) bool { return c == conn })
}

// receive answers datagrams until the socket is closed.
func (l *listener) receive(socket *net.UDPConn, secret Secret) {
	var b [len(secret) + 1]byte // one more, to tell a longer one
	for {
		n, from, err := socket.ReadFromUDPAddrPort(b[:])
		if err != nil {
			return
		}
		if l.admits(b[:n], secret) {
			_, _ = socket.WriteToUDPAddrPort(b[:n], from)
		}
	}
}

func (l *listener) admits(got []byte, secret Secret) bool {
	if subtle.ConstantTimeCompare(got, secret[:]) != 1 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = true
	return true
}

// wasHeard tells whether something came. Of TCP, that is the first packet already: where the kernel's
// answer to it is lost, no message comes.
func (l *listener) wasHeard() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.got || !l.tcp {
		return l.got
	}
	var halfOpen bool
	err := host.Do(l.namespace, func() (err error) {
		halfOpen, err = host.HasHalfOpen(l.address)
		return err
	})
	return err == nil && halfOpen
}

// dial tries whether the server's end answers. Each try is a socket of its own: the kernel waits
// a second before it sends the first packet of a connection again.
func dial(ctx context.Context, t Trial, secret Secret) error {
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	answers := make(chan error, trialLimit/trialEvery+2) // nobody may be left to take one
	try := func() { go func() { answers <- tryOnce(ctx, t, secret) }() }
	again := time.NewTicker(trialEvery)
	defer again.Stop()
	failed := fmt.Errorf("no answer within %v", trialLimit)
	for try(); ; {
		select {
		case err := <-answers:
			if err == nil {
				return nil
			}
			failed = err
		case <-again.C:
			try()
		case <-ctx.Done():
			return failed
		}
	}
}

func tryOnce(ctx context.Context, t Trial, secret Secret) error {
	var conn net.Conn
	err := host.Do(t.From.Namespace, func() (err error) {
		conn, err = dialer(t).DialContext(ctx, t.Transport+"4", net.JoinHostPort(t.To.Addr.String(), strconv.Itoa(t.Port)))
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	var got Secret
	if _, err = conn.Write(secret[:]); err == nil {
		_, err = io.ReadFull(conn, got[:])
	}
	if err == nil && got != secret {
		err = errors.New("another program answers at its port")
	}
	return err
}

func dialer(t Trial) *net.Dialer {
	if t.Transport == "tcp" {
		return &net.Dialer{LocalAddr: &net.TCPAddr{IP: t.From.Addr.AsSlice()}}
	}
	return &net.Dialer{LocalAddr: &net.UDPAddr{IP: t.From.Addr.AsSlice()}}
}
