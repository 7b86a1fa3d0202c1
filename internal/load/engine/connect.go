package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
)

// The engine that connects for each request. Its control frames come like its
// requests: on a connection of their own.
//
// The server closes first, so its end waits in TIME_WAIT and the client's ports are
// free at once. They are used in turn, few enough that neither the sockets that wait
// nor what conntrack keeps of them grows: a connection from a port that the server
// still waits for takes the place of the old one (RFC 6191), as it does with netperf
// once that has gone round its ports.

const (
	// askTimeout is for one try of a control frame: TCP has sent it again by then.
	askTimeout = 1500 * time.Millisecond
)

// calls makes connections between the ends of a flow, one after the other. They are
// made in the namespace of the calling thread.
type calls struct {
	from       unix.SockaddrInet4
	to         unix.RawSockaddrInet4
	first      int // of the client's ports
	ports, nth int
	congestion string // to be set on each socket; empty: they have it
	hot        bool
}

func newCalls(l load.Load, plan *load.Plan, arm load.Arm, flow int) (*calls, error) {
	ends, target := arm.Pair(flow), arm.Target(flow)
	c := &calls{
		from: unix.SockaddrInet4{Addr: ends.From.Addr.As4()}, first: arm.ClientPort, ports: l.ClientPorts(plan.Flows),
		to: unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: target.Addr().As4(), Port: networkOrder(int(target.Port()))},
	}
	err := withSocket(ends.From.Namespace, l.Transport, func(s socket) error {
		defer s.close()
		if has, err := unix.GetsockoptString(s.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION); err != nil || has != plan.Congestion {
			c.congestion = plan.Congestion
		}
		return nil
	})
	return c, err
}

// networkOrder gives a port as it is on the wire.
func networkOrder(port int) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, uint16(port)))
}

// connect opens the next connection. It may take so long, and so may whatever is
// received on it. Error: there is none within that time, or it is refused.
func (c *calls) connect(timeout time.Duration) (socket, error) {
	for tries := 0; ; tries++ {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return socket{}, fmt.Errorf("open tcp socket: %w", err)
		}
		s := socket{fd: fd, hot: c.hot}
		if err = c.prepare(s, timeout); err == nil {
			err = c.call(s, timeout)
		}
		if err == nil {
			return s, nil
		}
		s.abort()
		// Somebody else uses the port, or its last connection has not ended.
		taken := errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EADDRNOTAVAIL)
		if !taken || tries == c.ports {
			return socket{}, err
		}
	}
}

func (c *calls) call(s socket, timeout time.Duration) error {
	_, err := s.call(unix.SYS_CONNECT, unsafe.Pointer(&c.to), unix.SizeofSockaddrInet4, 0)
	switch {
	case errors.Is(err, unix.EALREADY): // a signal broke the call off
		return s.connected(timeout)
	case errors.Is(err, unix.EISCONN): // likewise, and it was done by the next
		return nil
	}
	return err
}

func (c *calls) prepare(s socket, timeout time.Duration) error {
	_ = s.congest(c.congestion) // see TryCongestion
	for _, option := range []int{unix.SO_SNDTIMEO, unix.SO_RCVTIMEO} {
		if err := s.setTimeout(option, timeout); err != nil {
			return fmt.Errorf("set timeout: %w", err)
		}
	}
	if err := s.noDelay(); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("set SO_REUSEADDR: %w", err)
	}
	c.nth = (c.nth + 1) % c.ports
	c.from.Port = c.first + c.nth
	return unix.Bind(s.fd, &c.from)
}

// recvAll fills b.
func (s socket) recvAll(b []byte) error {
	for len(b) > 0 {
		n, err := s.recv(b)
		if err != nil {
			return err
		}
		if n == 0 {
			return errPeerGone
		}
		b = b[n:]
	}
	return nil
}

// finish waits for the server to close, and closes.
func (s socket) finish() error {
	var more [1]byte
	n, err := s.recv(more[:])
	if err == nil && n > 0 {
		err = errNotSent
	}
	if err != nil {
		s.abort()
		return err
	}
	s.close()
	return nil
}

// abort closes a connection with a reset: its port is free at once.
func (s socket) abort() {
	_ = unix.SetsockoptLinger(s.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	s.close()
}

// exchangeOn sends what is in request, waits for as much in reply, which may be at
// the same place, and for the end of the connection.
func (s socket) exchangeOn(request, reply []byte) error {
	err := s.sendAll(request)
	if err == nil {
		err = s.recvAll(reply)
	}
	if err != nil {
		s.abort()
		return err
	}
	return s.finish()
}

// transact makes a request on a connection of its own; false: it was refused,
// broken off, or something did not come in time.
func (a *active) transact(message []byte) (bool, error) {
	s, err := a.calls.connect(a.timeout)
	if err != nil {
		return false, fatalConnectError(err)
	}
	reply := a.buf[:a.plan.ReplySize()]
	err = s.exchangeOn(message, reply)
	if err == nil && !a.isReply(reply) {
		err = errNotSent
	}
	if errors.Is(err, errNotSent) {
		return false, err
	}
	return err == nil, nil
}

// fatalConnectError hands on an error of this end, with which no connection can be had.
func fatalConnectError(err error) error {
	for _, e := range []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EADDRINUSE, unix.EADDRNOTAVAIL, unix.EACCES, unix.EPERM} {
		if errors.Is(err, e) {
			return fmt.Errorf("connect: %w", err)
		}
	}
	return nil
}

// askAnew sends a control frame, each time on a connection of its own, until it is
// answered.
func (a *active) askAnew(f frame, want frameKind) (frame, error) {
	var err error
	wait := firstAnswer
	for end := a.clock.now() + a.answerTimeout.Nanoseconds(); a.clock.now() < end && !a.aborted.Load(); wait = min(2*wait, lastAnswer) {
		var answer frame
		answer, err = a.askOnce(f)
		if err == nil && answer.kind == want && answer.slice == f.slice {
			return answer, nil
		}
		time.Sleep(wait)
	}
	return frame{}, errors.Join(errNoAnswer, err)
}

func (a *active) askOnce(f frame) (frame, error) {
	defer clear(a.buf)
	s, err := a.calls.connect(askTimeout)
	if err != nil {
		return frame{}, err
	}
	b := a.buf[:frameSize]
	f.put(b)
	if err := s.exchangeOn(b, b); err != nil {
		return frame{}, err
	}
	answer, ok := parseFrame(b, a.plan.Token)
	if !ok {
		return frame{}, errNotSent
	}
	return answer, nil
}
