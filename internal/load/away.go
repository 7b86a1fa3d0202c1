package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// An end may be in a virtual machine, where only the agent in there can open
// sockets. Whoever runs a series then hands the arm on to that agent, with a
// plan that has only such arms, and asks it for one slice at a time: so the
// slices of all arms still come in one random order. Nothing is said between
// the two while a slice runs.

// Away reaches the agents in virtual machines, by [host.Endpoint.Agent].
type Away interface {
	// Open opens the active ends of the plan's arms in a virtual machine.
	Open(ctx context.Context, agent string, plan Plan) (Client, error)
	// Serve opens the passive ends there. It is called at the same time for
	// several, and so is Close of what it gives.
	Serve(agent string, plan Plan) (Served, error)
}

// Served are the passive ends of some arms of a series.
type Served interface {
	io.Closer
	// Shut gives the arms whose ends could not be opened, and why.
	Shut() map[int]error
}

var errNoWay = errors.New("the end is in a virtual machine, and there is no way to the agent in there")

func fromEnd(p Pair) host.Endpoint { return p.From }
func toEnd(p Pair) host.Endpoint   { return p.To }

// group are the arms that have one of their ends at the same agent; an empty
// name stands for this process.
type group struct {
	agent string
	arms  []int
}

// behind groups the arms by the agent of that end.
func (p Plan) behind(end func(Pair) host.Endpoint) (groups []group) {
	for i, a := range p.Arms {
		agent := end(a.Ends[0]).Agent
		at := slices.IndexFunc(groups, func(g group) bool { return g.agent == agent })
		if at < 0 {
			at = len(groups)
			groups = append(groups, group{agent: agent})
		}
		groups[at].arms = append(groups[at].arms, i)
	}
	return groups
}

// inside is the plan with only some arms, as the agent in their virtual machine
// sees them: in its own namespace. The cores there are others, and are the
// kernel's in there to choose.
func (p Plan) inside(arms []int) Plan {
	all := p
	p.Arms, p.Schedule = nil, nil
	p.ClientCPU, p.ServerCPU = -1, -1
	for _, arm := range arms {
		a := all.Arms[arm]
		a.NearSpaces, a.FarSpaces = nil, nil
		a.NearPins, a.FarPins = "", ""
		a.Ends = slices.Clone(a.Ends)
		for i := range a.Ends {
			for _, end := range []*host.Endpoint{&a.Ends[i].From, &a.Ends[i].To} {
				end.Namespace, end.Agent = "", ""
			}
		}
		p.Arms = append(p.Arms, a)
	}
	for _, round := range all.Schedule {
		var order []int
		for _, arm := range round {
			if at := slices.Index(arms, arm); at >= 0 {
				order = append(order, at)
			}
		}
		p.Schedule = append(p.Schedule, order)
	}
	return p
}

// distant is the active end of the arms in one virtual machine.
type distant struct {
	client Client
	arms   []int // by the index that they have in there
	probe  Probe
	failed error // why there is no client
}

func openAway(ctx context.Context, plan Plan, g group, probe Probe, away Away) *distant {
	d := &distant{arms: g.arms, probe: probe, failed: errNoWay}
	switch {
	case !slices.ContainsFunc(g.arms, plan.schedules):
	case away != nil:
		d.client, d.failed = away.Open(ctx, g.agent, plan.inside(g.arms))
	}
	return d
}

// Measure is of [Client]. The slice is dated by the clock of this machine.
func (d *distant) Measure(arm, round int) SliceResult {
	if d.failed != nil {
		return broken(arm, round, fmt.Errorf("open client end: %w", d.failed))
	}
	start := time.Now()
	if d.probe != nil {
		d.probe.Begin(arm)
	}
	s := d.client.Measure(slices.Index(d.arms, arm), round)
	if d.probe != nil && s.Err == nil {
		d.probe.End(arm)
	}
	s.Arm, s.Round, s.Start = arm, round, start
	return s
}

// Close is of [Client].
func (d *distant) Close() {
	if d.client != nil {
		d.client.Close()
	}
}

// serveAway opens the passive ends of the arms in virtual machines, in all of
// them at once: one that does not answer costs its patience once.
func (s *Server) serveAway(groups []group, away Away) {
	served, errs := make([]Served, len(groups)), make([]error, len(groups))
	var wait sync.WaitGroup
	for i, g := range groups {
		if errs[i] = errNoWay; away != nil {
			wait.Go(func() { served[i], errs[i] = away.Serve(g.agent, s.plan.inside(g.arms)) })
		}
	}
	wait.Wait()
	for i, g := range groups {
		if errs[i] != nil {
			for _, arm := range g.arms {
				s.shut[arm] = fmt.Errorf("open server end: %w", errs[i])
			}
			continue
		}
		s.away = append(s.away, served[i])
		for at, why := range served[i].Shut() {
			if at >= 0 && at < len(g.arms) {
				s.shut[g.arms[at]] = why
			}
		}
	}
}

// closeAway closes what serveAway opened, at once too.
func (s *Server) closeAway() error {
	errs := make([]error, len(s.away))
	var wait sync.WaitGroup
	for i, served := range s.away {
		wait.Go(func() { errs[i] = served.Close() })
	}
	wait.Wait()
	return errors.Join(errs...)
}
