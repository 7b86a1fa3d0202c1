package load

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

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

var errNoAnswer = errors.New("the other end did not answer")

// active is one flow's active end. Its fields belong to its own thread; the
// runner touches them only between two calls of do.
type active struct {
	load Load
	plan *Plan
	arm  int
	conn socket
	tcp  bool
	buf  []byte
	out  *batch // for Batch > 1

	clock   clock
	number  uint64 // of the last request
	timeout time.Duration

	rtt   *hdrhistogram.Histogram
	ping  pingCounts
	sent  sendCounts
	done  frame // the server's account of the last slice
	tasks chan func(*active) error
	errs  chan error
}

// startActive connects one flow of an arm on a thread of its own.
func startActive(l Load, plan *Plan, arm, flow int) (*active, error) {
	a := &active{
		load: l, plan: plan, arm: arm,
		tcp:     l.Transport == "tcp",
		buf:     make([]byte, max(plan.Size, frameSize)),
		clock:   newClock(),
		timeout: maxTimeout, // until the warm-up has shown what the arm takes
		tasks:   make(chan func(*active) error),
		errs:    make(chan error, 1),
	}
	if l.Kind == PingPong {
		a.rtt = result.NewRTT()
	}
	if plan.Batch > 1 {
		a.out = newBatch(plan.Batch, plan.Size, a.buf)
	}
	ends := plan.Arms[arm].pair(flow)
	conn, err := dialIn(ends.From.Namespace, l.Transport, plan.Congestion,
		netip.AddrPortFrom(ends.From.Addr, uint16(plan.Arms[arm].ClientPort+flow)),
		netip.AddrPortFrom(ends.To.Addr, uint16(plan.Arms[arm].ServerPort+flow)))
	if err != nil {
		return nil, err
	}
	a.conn = conn
	go a.work()
	if err := a.do((*active).greet); err != nil {
		a.stop()
		return nil, err
	}
	return a, nil
}

// work runs tasks on one thread, which ends with it.
func (a *active) work() {
	err := pin(a.plan.ClientCPU)
	for task := range a.tasks {
		if err != nil {
			a.errs <- err
			continue
		}
		a.errs <- task(a)
	}
	close(a.errs)
}

// start begins a task; finish waits for it.
func (a *active) start(task func(*active) error) { a.tasks <- task }
func (a *active) finish() error                  { return <-a.errs }

func (a *active) do(task func(*active) error) error {
	a.start(task)
	return a.finish()
}

func (a *active) stop() {
	close(a.tasks)
	<-a.errs
	// Reset a TCP connection instead of leaving its ports to wait for a minute:
	// with many flows a run would come round to them.
	_ = unix.SetsockoptLinger(a.conn.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	a.conn.close()
}

func (a *active) greet() error {
	if a.tcp {
		if a.load.Kind == PingPong {
			if err := a.conn.noDelay(); err != nil {
				return err
			}
		}
		if err := a.conn.setTimeout(unix.SO_RCVTIMEO, ioTimeout); err != nil {
			return fmt.Errorf("set receive timeout: %w", err)
		}
	}
	_, err := a.ask(frame{kind: frameHello}, frameReady)
	return err
}

func (a *active) begin(slice uint64) error {
	_, err := a.ask(frame{kind: frameBegin, slice: slice}, frameReady)
	return err
}

func (a *active) end(slice uint64) (err error) {
	a.done, err = a.ask(frame{kind: frameEnd, slice: slice}, frameDone)
	if err == nil && a.tcp && a.load.Kind == Stream {
		a.sent.settle(a.conn)
	}
	return err
}

// ask sends a control frame and waits for its answer, past late data.
func (a *active) ask(f frame, want frameKind) (frame, error) {
	f.token = a.plan.Token
	wait := firstAnswer
	for waited := time.Duration(0); waited < ioTimeout; waited += wait {
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
		n, err := a.conn.recvAny(a.tcp, a.buf, a.plan.Size)
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

// Run drives the active ends through the schedule of the plan. Arms that are
// not in it are left alone. probe may be nil. When ctx ends it stops before the
// next slice and returns what it has with the context's error. An arm that
// fails is reported in one result with Err set and left out from there; the
// others go on. A slice in which too little came through for a figure is no
// failure: its counts say so.
func Run(ctx context.Context, plan Plan, probe Probe) ([]SliceResult, error) {
	l, err := plan.check()
	if err != nil {
		return nil, err
	}
	reserve(plan.Flows)
	r := &runner{load: l, plan: &plan, probe: probe, arms: make([][]*active, len(plan.Arms))}
	defer r.close()
	r.connect(ctx)
	for round, order := range plan.Schedule {
		for _, arm := range order {
			if err := ctx.Err(); err != nil {
				return r.results, err
			}
			if r.arms[arm] != nil {
				r.measure(arm, round)
			}
		}
	}
	return r.results, nil
}

// runner holds the active ends of all arms; the flows of a failed arm are nil.
type runner struct {
	load    Load
	plan    *Plan
	probe   Probe
	arms    [][]*active
	slice   uint64
	results []SliceResult
}

func (r *runner) close() {
	for arm := range r.arms {
		r.drop(arm)
	}
}

func (r *runner) drop(arm int) {
	for _, a := range r.arms[arm] {
		a.stop()
	}
	r.arms[arm] = nil
}

func (r *runner) fail(arm, round int, err error) {
	r.drop(arm)
	r.results = append(r.results, SliceResult{Arm: arm, Round: round, Start: time.Now(), Err: err})
}

// connect opens all flows and warms each arm up: neighbours, conntrack,
// congestion window, and the request timeout that the arm calls for.
func (r *runner) connect(ctx context.Context) {
	for arm := range r.plan.Arms {
		if ctx.Err() != nil {
			return
		}
		if !r.plan.schedules(arm) {
			continue
		}
		for flow := range r.plan.Flows {
			a, err := startActive(r.load, r.plan, arm, flow)
			if err != nil {
				r.fail(arm, 0, err)
				break
			}
			r.arms[arm] = append(r.arms[arm], a)
		}
		if r.arms[arm] == nil {
			continue
		}
		warm := max(r.plan.Head, 5*time.Millisecond)
		r.slice |= warmSlice
		err := r.traffic(arm, 0, warm, nil)
		r.slice &^= warmSlice
		if err != nil {
			r.fail(arm, 0, err)
			continue
		}
		if r.load.Kind != PingPong {
			continue
		}
		for _, a := range r.arms[arm] {
			p99 := time.Duration(a.rtt.ValueAtQuantile(99))
			a.timeout = min(max(10*p99, minTimeout), maxTimeout)
		}
	}
}

func (r *runner) measure(arm, round int) {
	start := time.Now()
	if err := r.traffic(arm, r.plan.Head, r.plan.Slice, r.probe); err != nil {
		r.fail(arm, round, err)
		return
	}
	flows := r.arms[arm]
	s := SliceResult{Arm: arm, Round: round, Start: start}
	if r.load.Kind == PingPong {
		s.Latency, s.Elapsed, s.Err = sumPings(flows)
	} else {
		s.Stream, s.Elapsed = sumStreams(flows)
	}
	if s.Err != nil {
		r.drop(arm)
	}
	r.results = append(r.results, s)
}

// traffic runs one slice on all flows of an arm.
func (r *runner) traffic(arm int, head, timed time.Duration, probe Probe) error {
	r.slice++
	slice := r.slice
	run := func(a *active) (err error) {
		// A lost datagram shall cost its own timeout, a TCP reply is only late.
		timeout := a.timeout
		if a.tcp {
			timeout = hotTimeout
		}
		if a.load.heats() {
			if err := a.conn.heat(true, timeout); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, a.conn.heat(false, ioTimeout)) }()
		}
		if a.load.Kind == Stream {
			return a.stream(head + timed)
		}
		return a.pingPong(head, timed)
	}
	flows := r.arms[arm]
	// One after the other, flow 0 first: its begin opens the server's meters.
	for _, a := range flows {
		if err := a.do(func(a *active) error { return a.begin(slice) }); err != nil {
			return fmt.Errorf("begin slice: %w", err)
		}
	}
	if probe != nil {
		probe.Begin(arm)
	}
	for _, a := range flows {
		a.start(run)
	}
	var failed error
	for _, a := range flows {
		failed = errors.Join(failed, a.finish())
	}
	if failed != nil {
		return failed
	}
	for i := len(flows) - 1; i >= 0; i-- { // flow 0 last: its end closes the server's meters
		if err := flows[i].do(func(a *active) error { return a.end(slice) }); err != nil {
			return fmt.Errorf("end slice: %w", err)
		}
	}
	if probe != nil { // not after a failure: the wait for it was no work of the arm
		probe.End(arm)
	}
	return nil
}
