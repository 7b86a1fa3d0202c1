package engine

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/thread"
	"github.com/venturi-net/venturi/result"
)

const (
	// A control datagram is sent again when no answer comes, soon at first: one
	// that met a full receive buffer must not stretch the meters' time.
	firstAnswer = 2 * time.Millisecond
	lastAnswer  = 100 * time.Millisecond

	// A request is lost after ten times the 99th percentile of the warm-up, but
	// never before minTimeout: on a busy machine a reply may well be that late.
	minTimeout = 20 * time.Millisecond
	maxTimeout = time.Second
)

// flowAnswerTimeout is added to ioTimeout for each further flow of an arm.
const flowAnswerTimeout = 20 * time.Millisecond

var errNoAnswer = errors.New("the other end did not answer")

// active is one flow's active end. Its fields belong to its thread; the
// runner touches them only between two calls of do.
type active struct {
	load load.Load
	plan *load.Plan
	arm  int
	conn socket
	tcp  bool
	buf  []byte
	out  manySender // of datagrams that are sent many a call; nil: one

	// trip makes one request and waits for its reply; false: it is lost.
	trip   func(a *active, message []byte) (bool, error)
	calls  *calls // of an engine that connects for each request
	prober prober // of an engine that sends on a schedule

	clock   clock
	number  uint64 // of the last request
	base    uint64 // of the slice's first request, on a schedule
	open    int    // requests that have no answer yet, on a schedule
	since   int64  // ns, when it was sent, where flows share a thread; 0: it is answered
	partial int    // bytes of a message that have gone, of a stream in parts
	segment int    // bytes of a part, of a stream with a rate
	timeout time.Duration
	// answerTimeout is how long the other end may take to answer a control frame. Where
	// hundreds of flows have filled their buffers, all of that comes before it.
	answerTimeout time.Duration

	rtt      *hdrhistogram.Histogram
	lateness *hdrhistogram.Histogram // of requests on a schedule when they were sent
	ping     pingCounts
	sent     sendCounts
	done     frame          // the server's account of the last slice
	aborted  atomic.Bool    // the other end is lost
	quit     atomic.Bool    // ends a stream before its time; see runBeside
	thread   *thread.Worker // that all of its work is done on
}

// startActive connects one flow of an arm, on a thread that it shares or, if that is nil, on
// one that it starts.
func startActive(l load.Load, plan *load.Plan, arm, flow int, shared *thread.Worker) (*active, error) {
	a := &active{
		load: l, plan: plan, arm: arm,
		tcp:     l.Transport == "tcp",
		buf:     make([]byte, messageRoom(plan)),
		clock:   newClock(),
		timeout: maxTimeout, // until the warm-up has shown what the arm takes

		answerTimeout: ioTimeout + host.ScaleTimeout(time.Duration(plan.Flows-1)*flowAnswerTimeout),
	}
	if l.Kind.Timed() {
		a.rtt, a.trip = result.NewRTT(), (*active).roundTrip
	}
	if l.Kind == load.Scheduled {
		a.lateness, a.timeout = result.NewRTT(), load.ScheduleTimeout
	}
	if plan.Batch > 1 {
		a.out = newBatch(plan.Batch, plan.Size, a.buf)
	}
	if err := a.connect(flow); err != nil {
		return nil, err
	}
	a.thread = shared
	if shared == nil {
		a.thread = thread.New(l.Name+" client", a.callNamespace(flow), plan.ClientCore(l, flow), l.Kind == load.Scheduled || a.messageRate() > 0)
	}
	a.thread.Join()
	if err := a.do((*active).sendHello); err != nil {
		a.stop()
		return nil, unanswered(plan.Arms[arm], l, flow, err)
	}
	return a, nil
}

// unanswered names the two ends in an error of a first message without an answer: a firewall
// may be between them.
func unanswered(a load.Arm, l load.Load, flow int, err error) error {
	if !errors.Is(err, errNoAnswer) {
		return err
	}
	ends, transport := a.Pair(flow), "udp"
	if l.Transport == "tcp" {
		transport = l.Transport
	}
	target := a.Target(flow)
	return fmt.Errorf("no answer to the first message by %s from %s, port %d, to %s, port %d: does a firewall let it and its answer pass? (%w)",
		transport, ends.From.Addr, a.ClientPort+flow, target.Addr(), target.Port(), err)
}

// connect connects the flow, or prepares to connect time and again.
func (a *active) connect(flow int) (err error) {
	arm := a.plan.Arms[a.arm]
	ends := arm.Pair(flow)
	if a.load.Kind == load.Connect {
		a.calls, err = newCalls(a.load, a.plan, arm, flow)
		a.trip = (*active).transact
		return err
	}
	a.conn, err = dialIn(ends.From.Namespace, a.load.Transport, a.plan.Congestion,
		netip.AddrPortFrom(ends.From.Addr, uint16(arm.ClientPort+flow)),
		arm.Target(flow))
	if err == nil && a.load.Segments {
		if a.out, err = newSegmenter(a.conn, a.plan.Size); err != nil {
			a.conn.close()
		}
	}
	if err != nil || a.load.Kind != load.Scheduled {
		return err
	}
	if a.load.Transport == "udp" {
		a.prober = newUDPProber(a.conn, a.clock, a.plan.Size)
		return nil
	}
	if a.prober, err = newICMPProber(ends, arm.ClientPort+flow, a.clock, a.plan.Token, a.plan.Size); err != nil {
		a.conn.close()
	}
	return err
}

// callNamespace is where a flow connects time and again; empty: it does not.
func (a *active) callNamespace(flow int) string {
	if a.load.Kind != load.Connect {
		return ""
	}
	return a.plan.Arms[a.arm].Pair(flow).From.Namespace
}

// messageRate is what the flow offers per second; 0: as much as goes.
func (a *active) messageRate() float64 { return a.plan.MessageRate(a.load, a.arm) }

// start begins a task; finish waits for it.
func (a *active) start(task func(*active) error) { a.thread.Start(func() error { return task(a) }) }
func (a *active) finish() error                  { return a.thread.Finish() }

func (a *active) do(task func(*active) error) error {
	a.start(task)
	return a.finish()
}

func (a *active) stop() {
	a.thread.Leave()
	if a.load.Kind == load.Connect {
		return
	}
	if a.prober != nil {
		a.prober.close()
	}
	// Reset a TCP connection instead of leaving its ports to wait for a minute:
	// with many flows a run would come round to them.
	_ = unix.SetsockoptLinger(a.conn.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	a.conn.close()
}

func (a *active) sendHello() error {
	if a.tcp && a.load.Kind != load.Connect {
		if a.load.Kind == load.PingPong {
			if err := a.conn.noDelay(); err != nil {
				return err
			}
		}
		if err := a.conn.setTimeout(unix.SO_RCVTIMEO, a.answerTimeout); err != nil {
			return fmt.Errorf("set receive timeout: %w", err)
		}
	}
	_, err := a.ask(frame{kind: frameHello}.withNonce(a.plan.Nonce), frameReady)
	return err
}

func (a *active) begin(slice uint64) error {
	_, err := a.ask(frame{kind: frameBegin, slice: slice}, frameReady)
	return err
}

func (a *active) end(slice uint64) (err error) {
	a.done, err = a.ask(frame{kind: frameEnd, slice: slice}, frameDone)
	if err == nil && a.tcp && a.load.Kind == load.Stream {
		a.sent.settle(a.conn)
	}
	return err
}

// ask sends a control frame and waits for its answer, past late data.
func (a *active) ask(f frame, want frameKind) (frame, error) {
	f.token = a.plan.Token
	if a.load.Kind == load.Connect {
		return a.askAnew(f, want)
	}
	wait := firstAnswer
	for waited := time.Duration(0); waited < a.answerTimeout; waited += wait {
		if !a.tcp {
			wait = min(2*wait, lastAnswer)
			if err := a.conn.setTimeout(unix.SO_RCVTIMEO, wait); err != nil {
				return frame{}, fmt.Errorf("set receive timeout: %w", err)
			}
		}
		f.put(a.buf)
		if err := a.conn.sendAll(a.buf[:frameSize]); err != nil && !lossy(err) {
			return frame{}, err
		}
		answer, err := a.answer(f.slice, want)
		if err == nil || a.tcp || !errors.Is(err, unix.EAGAIN) {
			clear(a.buf)
			return answer, err
		}
	}
	return frame{}, errNoAnswer
}

func (a *active) answer(slice uint64, want frameKind) (frame, error) {
	for {
		n, err := a.conn.recvAny(a.tcp, a.buf, a.plan.ReplySize())
		if err != nil {
			if a.tcp && errors.Is(err, unix.EAGAIN) {
				err = errNoAnswer
			}
			return frame{}, err
		}
		f, ok := parseFrame(a.buf[:n], a.plan.Token)
		if ok && f.kind == want && f.slice == slice {
			return f, nil
		}
		if !ok {
			a.ping.late++ // a reply after the timeout of the slice's last request
		}
	}
}

// lossy tells an error of a datagram's send that means the datagram is lost
// rather than the path broken.
func lossy(err error) bool { return errors.Is(err, unix.ENOBUFS) }
