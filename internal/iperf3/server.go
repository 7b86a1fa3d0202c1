package iperf3

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Responder runs the tests of iperf3 clients, one at a time, as iperf3 itself does. A further
// client is told that the server is busy.
type Responder struct {
	// Timeout is how long a client may take for a step; 0: ten seconds.
	Timeout time.Duration
	// Event is told of each test that has ended; nil: nobody is.
	Event func(Test)

	udp udpSockets // nil: the kernel's

	mutex sync.Mutex
	test  *session // that runs; nil: none
}

// Test is what became of one client.
type Test struct {
	Client string // its address
	Result TestResult
	Err    error
}

// mostGreeting is how many connections may be about to say what they are.
const mostGreeting = 64

// errOneTest ends a server that was to run one test only.
var errOneTest = errors.New("one test was run")

// Serve runs tests until ctx ends, or one if oneOff. It closes the listener. A client that
// misbehaves ends its own test, and nothing else.
func (s *Responder) Serve(ctx context.Context, ln net.Listener, oneOff bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	context.AfterFunc(ctx, func() { ln.Close() })
	greeting := make(chan struct{}, mostGreeting)
	var wait sync.WaitGroup
	defer wait.Wait()
	for {
		conn, err := ln.Accept()
		if err != nil {
			switch {
			case errors.Is(context.Cause(ctx), errOneTest):
				return nil
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case errors.Is(err, net.ErrClosed):
				return err
			}
			time.Sleep(10 * time.Millisecond) // no descriptors are left, say
			continue
		}
		select {
		case greeting <- struct{}{}:
		default:
			conn.Close() // too many that say nothing
			continue
		}
		wait.Add(1)
		go func() {
			defer wait.Done()
			ran := s.greet(ctx, conn, func() { <-greeting })
			if ran && oneOff {
				cancel(errOneTest)
			}
		}()
	}
}

func (s *Responder) timeout() time.Duration {
	if s.Timeout > 0 {
		return s.Timeout
	}
	return 10 * time.Second
}

// greet reads what a connection is: the next stream of the test that runs, or a new client.
func (s *Responder) greet(ctx context.Context, conn net.Conn, greeted func()) (ran bool) {
	var cookie [cookieSize]byte
	_ = conn.SetDeadline(time.Now().Add(s.timeout()))
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	_, err := io.ReadFull(conn, cookie[:])
	stop()
	if err != nil {
		greeted()
		conn.Close()
		return false
	}
	s.mutex.Lock()
	t := s.test
	if t == nil {
		s.test = &session{server: s, control: conn, cookie: cookie, conns: make(chan net.Conn)}
	}
	mine := s.test
	s.mutex.Unlock()
	greeted()
	switch {
	case t != nil && t.cookie == cookie:
		t.offer(ctx, conn, s.timeout())
		return false
	case t != nil:
		_ = writeState(conn, accessDenied)
		conn.Close()
		return false
	}
	defer conn.Close()
	report, err := mine.run(ctx)
	s.mutex.Lock()
	s.test = nil
	s.mutex.Unlock()
	if s.Event != nil {
		s.Event(Test{Client: conn.RemoteAddr().String(), Result: report, Err: err})
	}
	return true
}

// session is one test of a client.
type session struct {
	server  *Responder
	control net.Conn
	cookie  [cookieSize]byte
	conns   chan net.Conn // streams of TCP, as they come
	streams streams
}

// offer hands a stream over, if the test waits for one.
func (t *session) offer(ctx context.Context, conn net.Conn, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case t.conns <- conn:
		return
	case <-timer.C:
	case <-ctx.Done():
	}
	conn.Close()
}

// run takes a client through a test.
func (t *session) run(ctx context.Context) (TestResult, error) {
	stop := context.AfterFunc(ctx, func() {
		_ = t.control.SetWriteDeadline(time.Now().Add(time.Second))
		_ = writeState(t.control, serverTerminate)
		_ = t.control.SetReadDeadline(time.Now())
	})
	defer stop()
	defer t.streams.close()
	own, peer, err := t.steps(ctx)
	if ctx.Err() != nil {
		return TestResult{}, context.Cause(ctx)
	}
	if refused := new(refusal); errors.As(err, &refused) {
		_ = t.control.SetDeadline(time.Now().Add(t.server.timeout()))
		text := binary.BigEndian.AppendUint32([]byte{0xfe}, uint32(refused.number)) // serverError
		_, _ = t.control.Write(binary.BigEndian.AppendUint32(text, 0))
	}
	if err != nil {
		return TestResult{}, err
	}
	return newTestResult(&t.streams.params, own, peer, t.streams.params.Reverse), nil
}

// extendDeadline gives the client a time for its next step.
func (t *session) extendDeadline() { _ = t.control.SetDeadline(time.Now().Add(t.server.timeout())) }

func (t *session) steps(ctx context.Context) (own, peer results, err error) {
	p := &t.streams.params
	t.extendDeadline()
	if err := writeState(t.control, paramExchange); err != nil {
		return own, peer, err
	}
	if err := readJSON(t.control, mostParams, p); err != nil {
		return own, peer, fmt.Errorf("read parameters: %w", err)
	}
	if err := p.check(); err != nil {
		return own, peer, err
	}
	setNoDelay(t.control, true)
	open := t.acceptTCP
	if p.UDP {
		open = t.acceptUDP
	}
	if err := open(ctx); err != nil {
		return own, peer, fmt.Errorf("open streams: %w", err)
	}
	t.extendDeadline()
	for _, s := range []state{testStart, testRunning} {
		if err := writeState(t.control, s); err != nil {
			return own, peer, err
		}
	}
	t.streams.begin()
	if err := t.awaitEnd(ctx); err != nil {
		return own, peer, err
	}
	t.streams.end()
	own = t.streams.results()
	t.streams.close() // a client may wait for the rest of a block: this says that there is none
	t.extendDeadline()
	if err := writeState(t.control, exchangeResults); err != nil {
		return own, peer, err
	}
	if err := readJSON(t.control, mostResults, &peer); err != nil {
		return own, peer, fmt.Errorf("read results: %w", err)
	}
	if err := peer.check(len(t.streams.all)); err != nil {
		return own, peer, err
	}
	if err := writeJSON(t.control, own); err != nil {
		return own, peer, err
	}
	if err := writeState(t.control, displayResults); err != nil {
		return own, peer, err
	}
	_, _ = readState(t.control) // a client that is done says so, or goes
	return own, peer, nil
}

// idleSteps is for how many times a step a test may go on in which nothing is carried.
const idleSteps = 6

// mostPause bounds the pause after a block.
const mostPause = time.Hour

// idleLimit is how long it may: a slow test pauses after each block.
func (t *session) idleLimit() time.Duration {
	limit := idleSteps * t.server.timeout()
	if p := &t.streams.params; p.Bandwidth > 0 {
		limit += time.Duration(min(p.Length*8/p.Bandwidth, mostPause.Seconds()) * float64(time.Second))
	}
	return limit
}

// awaitEnd waits until the client ends the test, or has gone without a word.
func (t *session) awaitEnd(ctx context.Context) error {
	p := &t.streams.params
	limit := time.Duration(p.Time+p.Omit)*time.Second + 3*t.server.timeout()
	if p.Time == 0 {
		limit = time.Hour // it sends a number of bytes
	}
	s, err := state(0), error(nil)
	for end, carried := time.Now().Add(limit), int64(0); ; {
		until := time.Now().Add(t.idleLimit())
		if until.After(end) {
			until = end
		}
		_ = t.control.SetDeadline(until)
		if ctx.Err() != nil {
			return context.Cause(ctx) // whose end may have set the deadline before
		}
		s, err = readState(t.control)
		sum := t.streams.carried()
		if !errors.Is(err, os.ErrDeadlineExceeded) || !until.Before(end) || sum == carried {
			break
		}
		carried = sum
	}
	switch {
	case err != nil:
		return fmt.Errorf("await the end of the test: %w", err)
	case s == clientTerminate:
		return errors.New("the client broke the test off")
	case s != testEnd:
		return fmt.Errorf("the client is in state %d where the test should end", s)
	}
	return nil
}

// acceptTCP waits for the client's connections.
func (t *session) acceptTCP(ctx context.Context) error {
	t.extendDeadline()
	if err := writeState(t.control, createStreams); err != nil {
		return err
	}
	timeout := time.NewTimer(t.server.timeout())
	defer timeout.Stop()
	for len(t.streams.all) < int(t.streams.params.Parallel) {
		select {
		case conn := <-t.conns:
			_ = conn.SetDeadline(time.Time{})
			setNoDelay(conn, t.streams.params.NoDelay)
			t.streams.add(conn, t.streams.params.Reverse)
		case <-timeout.C:
			return fmt.Errorf("%d of %d came", len(t.streams.all), int(t.streams.params.Parallel))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// The words with which a UDP stream is opened, as the bytes that a little-endian iperf3
// sends.
var (
	udpHello = []byte{0x39, 0x38, 0x37, 0x36}
	udpReply = []byte{0x36, 0x37, 0x38, 0x39}
	// udpLegacyReply is that of servers before 3.13 or so: 987654321.
	udpLegacyReply = []byte{0xb1, 0x68, 0xde, 0x3a}
)

// acceptUDP opens a socket for each stream. The client opens them one after the other, each
// by a datagram, and only its own address is listened to.
func (t *session) acceptUDP(ctx context.Context) error {
	local, peer := t.control.LocalAddr().(*net.TCPAddr), t.control.RemoteAddr().(*net.TCPAddr)
	at := &net.UDPAddr{IP: local.IP, Port: local.Port, Zone: local.Zone}
	sockets := t.server.udp
	if sockets == nil {
		sockets = kernelUDP{}
	}
	ln, err := sockets.listen(ctx, at)
	if err != nil {
		return err
	}
	defer ln.Close()
	defer context.AfterFunc(ctx, func() { ln.SetDeadline(time.Now()) })()
	t.extendDeadline()
	if err := writeState(t.control, createStreams); err != nil {
		return err
	}
	buf := make([]byte, 64)
	_ = ln.SetReadDeadline(time.Now().Add(t.server.timeout()))
	for len(t.streams.all) < int(t.streams.params.Parallel) {
		_, from, err := ln.ReadFrom(buf)
		if err != nil {
			return fmt.Errorf("%d of %d came: %w", len(t.streams.all), int(t.streams.params.Parallel), err)
		}
		if a, ok := from.(*net.UDPAddr); !ok || !a.IP.Equal(peer.IP) || t.hasPeer(from) {
			continue
		}
		conn, err := sockets.dial(ctx, at, from)
		if err != nil {
			return err
		}
		t.streams.add(conn, t.streams.params.Reverse)
		if _, err := conn.Write(udpReply); err != nil {
			return err
		}
	}
	return nil
}

// hasPeer tells a further datagram of a stream that is open.
func (t *session) hasPeer(from net.Addr) bool {
	for _, s := range t.streams.all {
		if s.conn.RemoteAddr().String() == from.String() {
			return true
		}
	}
	return false
}

// setNoDelay switches Nagle's rule off or on.
func setNoDelay(conn net.Conn, off bool) {
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetNoDelay(off)
	}
}
