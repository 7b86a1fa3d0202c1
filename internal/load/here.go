package load

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// here is the active end of the arms whose clients are in this process.
type here struct {
	load   Load
	plan   *Plan
	probe  Probe
	arms   [][]*active // their flows; none of an arm that failed or is elsewhere
	crowds []*crowd    // of those that share a thread; nil of the others
	failed []error     // why an arm could not be opened
	slice  uint64
}

// openHere opens all flows of some arms, and warms each arm up: neighbours,
// conntrack, congestion window, and the request timeout that the arm calls for.
func openHere(ctx context.Context, l Load, plan *Plan, arms []int, probe Probe) *here {
	l.reserve(plan.threads(l))
	h := &here{
		load: l, plan: plan, probe: probe,
		arms: make([][]*active, len(plan.Arms)), failed: make([]error, len(plan.Arms)), crowds: make([]*crowd, len(plan.Arms)),
	}
	for _, arm := range arms {
		if ctx.Err() != nil {
			break
		}
		if !plan.schedules(arm) {
			continue
		}
		if h.failed[arm] = h.open(arm); h.failed[arm] != nil {
			h.drop(arm)
		}
	}
	return h
}

func (h *here) open(arm int) error {
	for flow := range h.plan.Flows {
		a, err := startActive(h.load, h.plan, arm, flow)
		if err != nil {
			return err
		}
		h.arms[arm] = append(h.arms[arm], a)
	}
	if h.plan.crowded(h.load) {
		var err error
		if h.crowds[arm], err = gather(h.arms[arm]); err != nil {
			return err
		}
	}
	warm := max(h.plan.Head, 5*time.Millisecond)
	h.slice |= warmSlice
	err := h.traffic(arm, 0, warm, nil)
	h.slice &^= warmSlice
	if err != nil || !h.load.Kind.timed() {
		return err
	}
	for _, a := range h.arms[arm] {
		p99 := time.Duration(a.rtt.ValueAtQuantile(99))
		a.timeout = min(max(10*p99, minTimeout), maxTimeout)
	}
	return nil
}

// Close is of [Client].
func (h *here) Close() {
	for arm := range h.arms {
		h.drop(arm)
	}
}

func (h *here) drop(arm int) {
	for _, a := range h.arms[arm] {
		a.stop()
	}
	h.arms[arm] = nil
	if c := h.crowds[arm]; c != nil {
		c.close()
		h.crowds[arm] = nil
	}
}

// Measure is of [Client].
func (h *here) Measure(arm, round int) SliceResult {
	flows := h.arms[arm]
	if len(flows) == 0 {
		err := h.failed[arm]
		if err == nil {
			err = errors.New("its ends are not open")
		}
		return broken(arm, round, err)
	}
	s := SliceResult{Arm: arm, Round: round, Start: time.Now()}
	s.Err = h.traffic(arm, h.plan.Head, h.plan.Slice, h.probe)
	switch {
	case s.Err != nil:
	case h.load.Kind.timed():
		s.Latency, s.Elapsed, s.Err = sumPings(flows)
	default:
		s.Stream, s.Elapsed = sumStreams(flows)
	}
	if s.Err != nil {
		h.drop(arm)
	}
	return s
}

// traffic runs one slice on all flows of an arm.
func (h *here) traffic(arm int, head, timed time.Duration, probe Probe) error {
	h.slice++
	slice := h.slice
	run := func(a *active) (err error) {
		if a.load.Kind == Connect {
			a.calls.hot = true
			defer func() { a.calls.hot = false }()
			return a.pingPong(head, timed)
		}
		// A lost datagram shall cost its own timeout, a TCP reply is only late.
		timeout := a.timeout
		if a.tcp {
			timeout = hotTimeout
		}
		if a.load.heats() {
			if err := a.conn.heat(true, timeout); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, a.conn.heat(false, a.patience)) }()
		}
		if a.load.Kind == Stream {
			return a.stream(head + timed)
		}
		return a.pingPong(head, timed)
	}
	flows := h.arms[arm]
	// One after the other, flow 0 first: its begin opens the server's meters.
	for _, a := range flows {
		if err := a.do(func(a *active) error { return a.begin(slice) }); err != nil {
			return fmt.Errorf("begin slice: %w", err)
		}
	}
	if probe != nil {
		probe.Begin(arm)
	}
	running := flows
	if c := h.crowds[arm]; c != nil {
		running = flows[:1]
		run = func(*active) error { return c.pingPong(flows, head, timed) }
	}
	for _, a := range running {
		a.start(run)
	}
	var failed error // of the first flow that did: hundreds may say the same
	for _, a := range running {
		if err := a.finish(); failed == nil {
			failed = err
		}
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
