package agent

import (
	"context"
	"errors"
	"time"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/result"
)

// SeriesPart is the arms of a series whose clients one agent has.
type SeriesPart struct {
	Agent  *Client
	Plan   load.Plan // of these arms alone
	Arms   []int     // their numbers in the whole plan
	Meters []string
}

// Drive runs the active ends of a series that several agents have: one slice at a time, in the
// order of the plan's schedule. Between slices the agents are called, and while one runs
// nothing is sent. Results and errors are as those of [Client.Run]. All agents of the series
// must be watched.
func (l *Liveness) Drive(ctx context.Context, plan load.Plan, parts []SeriesPart) ([]load.SliceResult, []result.Meter, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	series, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	d := &drive{arms: make([]drivenArm, len(plan.Arms)), abort: func() { abort(engine.ErrAborted) }}
	defer d.cancel()
	for _, p := range parts {
		s, err := p.Agent.openSteps(ctx, p.Plan, p.Meters)
		if err != nil {
			return nil, nil, err
		}
		d.open = append(d.open, s)
		for i, arm := range p.Arms {
			d.arms[arm] = drivenArm{s, i}
		}
	}
	end := l.fallSilent(series, sliceTime(plan), d.abandon)
	results, err := engine.Drive(series, plan.Schedule, d, &drivePauser{ctx: series, liveness: l})
	end()
	lost := l.lostAgent()
	var sums []result.Meter
	if lost == nil && d.failed == nil {
		for _, s := range d.open {
			of, failed := s.end()
			sums, err = append(sums, of...), errors.Join(err, failed)
		}
	}
	switch {
	case lost != nil:
		return results, sums, lost
	case d.failed != nil:
		return results, sums, d.failed
	case ctx.Err() != nil:
		return results, sums, ctx.Err()
	}
	return results, sums, err
}

// drive is the active ends of a series that several agents have.
type drive struct {
	open   []*steps
	arms   []drivenArm // by their numbers in the plan
	abort  func()      // ends the series: an agent is lost
	failed error       // what ended it; nil: nothing did
}

type drivenArm struct {
	steps *steps
	arm   int // its number there
}

// Measure is of [engine.Client]. The slice is dated by the clock of this machine.
func (d *drive) Measure(arm, round int) load.SliceResult {
	at := d.arms[arm]
	s, err := at.steps.measure(at.arm, round)
	if err != nil {
		d.failed = err
		d.abort()
		return load.SliceResult{Arm: arm, Round: round, Start: time.Now(), Err: err}
	}
	s.Arm, s.Round, s.Start = arm, round, s.Start.Add(-at.steps.client.clockOffset)
	return s
}

// Close is of [engine.Client].
func (d *drive) Close() { d.cancel() }

func (d *drive) cancel() {
	for _, s := range d.open {
		s.cancel()
	}
}

// abandon ends the series, and the slice that runs.
func (d *drive) abandon() {
	d.abort()
	d.cancel()
}

// drivePauser lets the controller call all agents between two slices, when it is time.
type drivePauser struct {
	ctx      context.Context
	liveness *Liveness
}

// Pause is of [engine.Pauser].
func (p *drivePauser) Pause() {
	p.liveness.speaking.Lock() // or a call that is under way would be answered beside the slice
	defer p.liveness.speaking.Unlock()
	if p.liveness.isDue() {
		p.liveness.callAll(p.ctx)
	}
	p.liveness.ends[0].markHeard() // the series goes on
}

// lostAgent is why one of the agents is lost; nil: all are there.
func (l *Liveness) lostAgent() error {
	for _, b := range l.ends {
		if why := b.client.lost.Load(); why != nil {
			return why
		}
	}
	return nil
}

// timeoutScale is that of the slowest agent.
func (l *Liveness) timeoutScale() time.Duration {
	scale := time.Duration(1)
	for _, b := range l.ends {
		scale = max(scale, b.client.timeoutScale)
	}
	return scale
}
