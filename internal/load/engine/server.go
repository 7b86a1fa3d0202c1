package engine

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/goodput"
	"github.com/venturi-net/venturi/internal/load/thread"
)

// Server is the passive end of a series: it echoes or counts, on one thread a flow
// (see [load.Plan.ThreadCount] for where it is one for several flows of an arm), all of them
// asleep but for those of the arm whose slice runs.
type Server struct {
	load       load.Load
	plan       load.Plan
	observer   SliceObserver
	ends       []*passive
	guests     []GuestServer // ends in virtual machines
	failedArms map[int]error // arms that could not be opened
	clock      clock         // one for all: see account
	wait       sync.WaitGroup
	done       chan struct{} // closed by Close
	refused    atomic.Int64

	background *Server // of the stream beside the load; nil: there is none

	mu     sync.Mutex
	closed bool
	failed error
}

// Serve opens the passive ends of every arm of the plan and returns when all
// of them can be reached, but for those of the arms that [Server.FailedArms] names.
// observer may be nil, and so may guests if no end is in a virtual machine.
func Serve(plan load.Plan, observer SliceObserver, guests GuestDialer) (*Server, error) {
	l, err := plan.Check()
	if err != nil {
		return nil, err
	}
	bg := backgroundOf(plan)
	s := newServer(l, plan, observer)
	if bg != nil {
		bl, err := bg.Check()
		if err != nil {
			return nil, err
		}
		s.background = newServer(bl, *bg, nil)
		reserve(bl, plan.ThreadCount(l)+bg.ThreadCount(bl))
	}
	var elsewhere []agentArms
	for _, g := range groupByAgent(plan, serverEnd) {
		if g.agent != "" {
			elsewhere = append(elsewhere, g)
			continue
		}
		for _, arm := range g.arms {
			if err := s.serve(arm); err != nil {
				s.failedArms[arm] = fmt.Errorf("open server end: %w", err)
			} else if s.background == nil {
			} else if err := s.background.serve(arm); err != nil {
				s.failedArms[arm] = fmt.Errorf("open server end of background: %w", err)
			}
		}
	}
	if err := s.admit(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.serveGuests(elsewhere, guests)
	return s, nil
}

func newServer(l load.Load, plan load.Plan, observer SliceObserver) *Server {
	reserve(l, plan.ThreadCount(l))
	return &Server{load: l, plan: plan, observer: observer, failedArms: map[int]error{}, clock: newClock(), done: make(chan struct{})}
}

// admit lets clients in from now on.
func (s *Server) admit() error {
	a, err := newAdmission(s)
	if err != nil {
		return err
	}
	s.wait.Go(func() { s.recordError(a.run()) })
	if s.background != nil {
		return s.background.admit()
	}
	return nil
}

// serve opens all flows of an arm or none.
func (s *Server) serve(arm int) error {
	var ends []*passive
	w := &goodput.Window{Head: s.plan.Head.Nanoseconds()}
	for flow := range s.plan.Flows {
		end, err := s.open(arm, flow, w)
		if err != nil {
			for _, end := range ends {
				end.entry.close()
			}
			return err
		}
		ends = append(ends, end)
	}
	s.ends = append(s.ends, ends...)
	if s.plan.SharesThreads(s.load) {
		for _, group := range byThread(s.plan.ThreadCount(s.load), ends) {
			s.wait.Go(func() { s.recordError(s.serveGroup(group)) })
		}
		return nil
	}
	for _, end := range ends {
		s.wait.Go(func() { s.recordError(end.run()) })
	}
	return nil
}

// FailedArms gives the arms whose ends could not be opened, each with the reason. An
// end that somebody else made may be gone by now, or have its port in use; that
// is no reason not to serve the others.
func (s *Server) FailedArms() map[int]error { return s.failedArms }

// Close ends all passive ends, waits for their threads, and gives the first
// error that one of them met.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	close(s.done)
	for _, end := range s.ends {
		end.entry.shutdown()
		if end.conn != end.entry {
			end.conn.shutdown()
		}
	}
	s.mu.Unlock()
	s.wait.Wait()
	for _, end := range s.ends {
		end.entry.close()
		if end.conn != end.entry {
			end.conn.close()
		}
	}
	if s.background != nil {
		s.failed = errors.Join(s.failed, s.background.Close())
	}
	return errors.Join(s.failed, s.closeGuests())
}

func (s *Server) isClosed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// recordError keeps the first error that is not just the end of the series.
func (s *Server) recordError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || s.closed || s.failed != nil || errors.Is(err, errPeerGone) ||
		errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ECONNRESET) {
		return
	}
	s.failed = err
}

// passive is one flow's passive end.
type passive struct {
	server *Server
	arm    int
	flow   int
	entry  socket // what the client reaches first; a TCP listener
	conn   socket // carries the messages; the entry itself for UDP
	buf    []byte
	filled int // bytes of a message that are in buf, of a stream of TCP
	tcp    bool
	// client is closed when the end has its client, which hasClient says to the thread of
	// admission; callers are its connections, where it makes many.
	client    chan struct{}
	hasClient bool
	callers   callers
	clock     clock
	counts    goodput.Arrivals
	window    *goodput.Window // of the arm
	last      frame           // last control frame that was answered, and
	answer    frame           // its answer, for when it comes again
}

func (s *Server) open(arm, flow int, w *goodput.Window) (*passive, error) {
	a := s.plan.Arms[arm]
	to := a.Pair(flow).To
	at := netip.AddrPortFrom(to.Addr, uint16(a.ServerPort+flow))
	entry, err := listenIn(to.Namespace, s.load.Transport, s.plan.Congestion, at, listenBacklog)
	if err != nil {
		return nil, err
	}
	return &passive{
		server: s, arm: arm, flow: flow,
		entry: entry, conn: entry,
		buf:    make([]byte, messageRoom(&s.plan)),
		tcp:    s.load.Transport == "tcp",
		client: make(chan struct{}),
		clock:  s.clock,
		counts: goodput.New(s.plan.Size, w),
		window: w,
	}, nil
}

func (p *passive) run() error {
	if err := thread.PinAs(p.server.load.Name+" server", p.server.plan.ServerCore(p.server.load, p.flow)); err != nil {
		return err
	}
	if !p.awaitClient() {
		return nil
	}
	if p.server.load.Kind == load.Connect {
		return p.takeCalls()
	}
	switch {
	case p.server.load.Kind != load.Stream:
		return p.echo()
	case p.server.load.Segments:
		return p.sinkMerged()
	case p.server.plan.Batch > 1:
		return p.sinkBatches(p.server.plan.Batch)
	case p.tcp:
		return p.sinkParts()
	}
	return p.sink()
}

// echo sends every message back.
func (p *passive) echo() error {
	spin, conn := p.server.plan.Arms[p.arm].Spin.Nanoseconds(), p.conn
	for {
		n, err := p.next(&conn)
		if err != nil {
			return err
		}
		if spin > 0 {
			p.clock.spin(spin)
		}
		if err := conn.sendAll(p.reply(n)); err != nil && !lossy(err) {
			return err
		}
	}
}

// reply is the answer to the request of n bytes in the buffer: its number is at the same place.
func (p *passive) reply(n int) []byte { return p.buf[:cmp.Or(p.server.plan.Response, n)] }

// sink counts every message.
func (p *passive) sink() error {
	conn := p.conn
	for {
		if _, err := p.next(&conn); err != nil {
			return err
		}
		p.count()
	}
}

// count counts a message.
func (p *passive) count() {
	if p.counts.Add() {
		p.counts.Read(p.clock.now())
	}
}

// sinkParts counts messages on a TCP connection as their parts come.
func (p *passive) sinkParts() error {
	conn := p.conn
	for {
		n, err := conn.recv(p.buf[p.filled:p.messageEnd()])
		if err == nil {
			_, err = p.countPart(&conn, n)
		}
		if err != nil {
			return err
		}
	}
}

// countPart counts what a receive call added to the buffer, or answers the control frame that it
// has made whole, which only ever stands at a message boundary.
func (p *passive) countPart(conn *socket, n int) (whole bool, err error) {
	if n == 0 {
		return false, errPeerGone
	}
	p.filled += n
	frame := p.buf[0] == frameMark
	whole = p.filled == p.messageEnd()
	if !frame && p.counts.AddPart(n, whole) {
		p.counts.Read(p.clock.now())
	}
	if !whole {
		return false, nil
	}
	n, p.filled = p.filled, 0
	if frame {
		err = p.control(conn, p.buf[:n])
	}
	return true, err
}

// next takes the next message, answering the control frames before it. conn is
// the caller's own copy of the socket: Close looks at the server's.
func (p *passive) next(conn *socket) (int, error) {
	for {
		n, err := conn.recvAny(p.tcp, p.buf, p.server.plan.Size)
		switch {
		case err != nil:
			if err := conn.cool(err); err != nil {
				return 0, err
			}
		case p.buf[0] != frameMark:
			return n, nil
		default:
			if err := p.control(conn, p.buf[:n]); err != nil {
				return 0, err
			}
		}
	}
}

// control answers a control frame; the same frame again gets the same answer.
// The socket is hot from the begin of a slice to its end.
func (p *passive) control(conn *socket, b []byte) error {
	f, ok := parseFrame(b, p.server.plan.Token)
	if !ok {
		if p.tcp {
			return errors.New("read control frame: not of this series")
		}
		return nil // a stray datagram
	}
	if f.kind != p.last.kind || f.slice != p.last.slice {
		p.answer = p.act(f)
		p.last = f
	}
	if on := f.kind == frameBegin && heats(p.server.load); on != conn.hot {
		timeout := hotTimeout
		if !on {
			timeout = 0
		}
		if err := conn.heat(on, timeout); err != nil {
			return err
		}
	}
	p.answer.put(p.buf)
	return conn.sendAll(p.buf[:frameSize])
}

// metered tells whether a frame brackets a slice for the meters. Flow 0 begins
// first and ends last, so its frames do; a warm-up is not measured.
func (p *passive) metered(f frame) bool {
	return p.flow == 0 && p.server.observer != nil && f.slice&warmSlice == 0
}

func (p *passive) act(f frame) frame {
	answer := frame{kind: frameReady, token: f.token, slice: f.slice}
	switch f.kind {
	case frameBegin:
		if p.flow == 0 { // which begins first
			p.window.Reset()
		}
		p.counts.Begin()
		if p.metered(f) {
			p.server.observer.Begin(p.arm)
		}
	case frameEnd:
		if p.metered(f) {
			p.server.observer.End(p.arm)
		}
		answer.kind = frameDone
		answer.values = valuesOf(p.counts.End())
	}
	return answer
}
