package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/thread"
)

// localClient is the active end of the arms whose clients are in this process.
type localClient struct {
	load     load.Load
	plan     *load.Plan
	observer SliceObserver
	arms     [][]*active    // their flows; none of an arm that failed or is elsewhere
	groups   [][]*flowGroup // of those that share threads; none of the others
	openErrs []error        // why an arm could not be opened
	slice    uint64

	mu         sync.Mutex   // of arms, which abort reads
	background *localClient // runs beside; nil: nothing does
}

// openLocalClient opens all flows of some arms, and warms each arm up: neighbours,
// conntrack, congestion window, and the request timeout that the arm calls for.
func openLocalClient(ctx context.Context, l load.Load, plan *load.Plan, arms []int, observer SliceObserver) *localClient {
	reserve(l, plan.ThreadCount(l))
	h := &localClient{
		load: l, plan: plan, observer: observer,
		arms: make([][]*active, len(plan.Arms)), openErrs: make([]error, len(plan.Arms)), groups: make([][]*flowGroup, len(plan.Arms)),
	}
	if bg := backgroundOf(*plan); bg != nil {
		bl, _ := load.Find(bg.Load) // the plan was checked
		reserve(bl, plan.ThreadCount(l)+bg.ThreadCount(bl))
		h.background = openLocalClient(ctx, bl, bg, arms, nil)
	}
	for _, arm := range arms {
		if ctx.Err() != nil {
			break
		}
		if !plan.Schedules(arm) {
			continue
		}
		if b := h.background; b != nil && b.openErrs[arm] != nil {
			h.openErrs[arm] = fmt.Errorf("open background: %w", b.openErrs[arm])
			continue
		}
		if h.openErrs[arm] = h.unanswered(arm); h.openErrs[arm] != nil {
			continue
		}
		if h.openErrs[arm] = h.open(arm); h.openErrs[arm] != nil {
			h.closeArm(arm)
		}
	}
	return h
}

// unanswered is the error of an arm before, with the same ends dialed the same way,
// that nothing answered to: to wait once more would tell nothing new.
func (h *localClient) unanswered(arm int) error {
	for before := range arm {
		a, b := &h.plan.Arms[before], &h.plan.Arms[arm]
		if err := h.openErrs[before]; errors.Is(err, errNoAnswer) && slices.Equal(a.Ends, b.Ends) && slices.Equal(a.Dial, b.Dial) {
			return err
		}
	}
	return nil
}

func (h *localClient) open(arm int) error {
	threads := make([]*thread.Worker, h.plan.ThreadCount(h.load))
	for flow := range h.plan.Flows {
		shared := &threads[flow%len(threads)]
		a, err := startActive(h.load, h.plan, arm, flow, *shared)
		if err != nil {
			return err
		}
		*shared = a.thread
		h.mu.Lock()
		h.arms[arm] = append(h.arms[arm], a)
		h.mu.Unlock()
	}
	if h.plan.SharesThreads(h.load) {
		var err error
		if h.groups[arm], err = groupFlows(h.load, h.plan, h.arms[arm]); err != nil {
			return err
		}
	}
	warm := max(h.plan.Head, 5*time.Millisecond)
	h.slice |= warmSlice
	err := h.runSlice(arm, 0, warm, nil)
	h.slice &^= warmSlice
	if err != nil || !h.load.Kind.Timed() || h.load.Kind == load.Scheduled {
		return err
	}
	for _, a := range h.arms[arm] {
		p99 := time.Duration(a.rtt.ValueAtQuantile(99))
		a.timeout = min(max(10*p99, minTimeout), maxTimeout)
		if h.background != nil {
			// Beside a stream, requests wait in its queue, and here they had none.
			a.timeout = maxTimeout
		}
	}
	return nil
}

// Close implements [Client].
func (h *localClient) Close() {
	for arm := range h.arms {
		h.closeArm(arm)
	}
	if h.background != nil {
		h.background.Close()
	}
}

// abort is of [aborter].
func (h *localClient) abort() {
	if h.background != nil {
		h.background.abort()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, flows := range h.arms {
		for _, a := range flows {
			a.aborted.Store(true)
			if a.load.Kind != load.Connect { // whose connections are short
				_ = unix.Shutdown(a.conn.fd, unix.SHUT_RDWR) // only the number is read: the rest is its thread's
			}
		}
	}
}

func (h *localClient) closeArm(arm int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.arms[arm] {
		a.stop()
	}
	h.arms[arm] = nil
	closeGroups(h.groups[arm])
	h.groups[arm] = nil
}

// Measure implements [Client].
func (h *localClient) Measure(arm, round int) load.SliceResult {
	flows := h.arms[arm]
	if len(flows) == 0 {
		err := h.openErrs[arm]
		if err == nil {
			err = errors.New("its ends are not open")
		}
		return failedSlice(arm, round, err)
	}
	s := load.SliceResult{Arm: arm, Round: round, Start: time.Now()}
	measure := func() error { return h.runSlice(arm, h.plan.Head, h.plan.Slice, h.observer) }
	if h.background != nil {
		s.Background, s.Err = h.runBeside(arm, measure)
	} else {
		s.Err = measure()
	}
	switch {
	case s.Err != nil:
	case h.load.Kind.Timed():
		s.Latency, s.Elapsed, s.Err = sumPings(flows)
	default:
		s.Stream, s.Elapsed = sumStreams(flows)
	}
	if s.Err != nil {
		h.closeArm(arm)
		if h.background != nil {
			h.background.closeArm(arm)
		}
	}
	return s
}

// runSlice runs one slice on all flows of an arm.
func (h *localClient) runSlice(arm int, head, timed time.Duration, observer SliceObserver) error {
	h.slice++
	flows := h.arms[arm]
	// One after the other, flow 0 first: its begin opens the server's meters.
	for _, a := range flows {
		if err := a.do(func(a *active) error { return a.begin(h.slice) }); err != nil {
			return fmt.Errorf("begin slice: %w", err)
		}
	}
	if observer != nil {
		observer.Begin(arm)
	}
	if err := h.runFlows(arm, head, timed); err != nil {
		return err
	}
	for _, a := range slices.Backward(flows) { // flow 0 last: its end closes the server's meters
		if err := a.do(func(a *active) error { return a.end(h.slice) }); err != nil {
			return fmt.Errorf("end slice: %w", err)
		}
	}
	if observer != nil { // not after a failure: the wait for it was no work of the arm
		observer.End(arm)
	}
	return nil
}

// runFlows runs the traffic of a slice: each flow on its own thread, or each group of them on
// that of its first flow. It returns the first error: hundreds may say the same.
func (h *localClient) runFlows(arm int, head, timed time.Duration) (failed error) {
	started := h.arms[arm]
	if groups := h.groups[arm]; len(groups) > 0 {
		started = nil
		for _, g := range groups {
			g.flows[0].start(func(*active) error { return g.run(head, timed) })
			started = append(started, g.flows[0])
		}
	} else {
		for _, a := range started {
			a.start(func(a *active) error { return a.run(head, timed) })
		}
	}
	for _, a := range started {
		failed = cmp.Or(failed, a.finish())
	}
	return failed
}

// run is one slice of a flow that has a thread of its own.
func (a *active) run(head, timed time.Duration) error {
	switch {
	case a.load.Kind == load.Scheduled:
		return a.runSchedule(head, timed)
	case a.load.Kind == load.Connect:
		a.calls.hot = true
		defer func() { a.calls.hot = false }()
		return a.pingPong(head, timed)
	case heats(a.load):
		return a.runHot(head, timed)
	}
	return a.exchangeMessages(head, timed)
}

// runHot is such a slice on a hot socket.
func (a *active) runHot(head, timed time.Duration) (err error) {
	timeout := a.timeout // a lost datagram costs its own timeout
	if a.tcp {
		timeout = hotTimeout // a TCP reply is only late
	}
	if err := a.conn.heat(true, timeout); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.conn.heat(false, a.answerTimeout)) }()
	return a.exchangeMessages(head, timed)
}

// exchangeMessages runs the engine of a load with one connection a flow.
func (a *active) exchangeMessages(head, timed time.Duration) error {
	if a.load.Kind == load.Stream {
		return a.stream(head + timed)
	}
	return a.pingPong(head, timed)
}
