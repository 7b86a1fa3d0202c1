package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/host"

	"github.com/venturi-net/venturi/internal/load"
)

// Only the agent in a virtual machine can open sockets there. The runner of a series
// hands such arms to that agent, with a plan of these arms only, and asks for one slice
// at a time, so the slices of all arms keep one random order. The two exchange nothing
// while a slice runs.

// GuestDialer reaches the agents in virtual machines by [host.Endpoint.Agent].
type GuestDialer interface {
	// Open opens the active ends of the plan's arms in a virtual machine.
	Open(ctx context.Context, agent string, plan load.Plan) (Client, error)
	// Serve opens the passive ends there. It is called at the same time for
	// several, and so is Close of what it gives.
	Serve(agent string, plan load.Plan) (GuestServer, error)
}

// GuestServer is the passive ends of some arms of a series.
type GuestServer interface {
	io.Closer
	// FailedArms gives the arms whose ends could not be opened, and why.
	FailedArms() map[int]error
	// Refused is how many connections and datagrams were not of the series, until Close.
	Refused() int64
}

var errNoDialer = errors.New("the end is in a virtual machine, and nothing reaches the agent in it")

func clientEnd(p load.Pair) host.Endpoint { return p.From }
func serverEnd(p load.Pair) host.Endpoint { return p.To }

// agentArms are the arms whose end on one side is at the same agent; an empty name is
// this process.
type agentArms struct {
	agent string
	arms  []int
}

// groupByAgent groups the arms by the agent of the end that end selects.
func groupByAgent(p load.Plan, end func(load.Pair) host.Endpoint) (groups []agentArms) {
	for i, a := range p.Arms {
		agent := end(a.Ends[0]).Agent
		at := slices.IndexFunc(groups, func(g agentArms) bool { return g.agent == agent })
		if at < 0 {
			at = len(groups)
			groups = append(groups, agentArms{agent: agent})
		}
		groups[at].arms = append(groups[at].arms, i)
	}
	return groups
}

// forGuest is the plan with some arms only, as the agent in their virtual machine
// sees them: in its own namespace, and not pinned, since its cores are others.
func forGuest(p load.Plan, arms []int) load.Plan {
	p = p.Subset(arms)
	p.ClientCPU, p.ServerCPU = -1, -1
	p.ClientCPUs, p.ServerCPUs = nil, nil
	if p.Background != nil {
		beside := *p.Background
		beside.ClientCPU, beside.ServerCPU = -1, -1
		p.Background = &beside
	}
	for i := range p.Arms {
		a := &p.Arms[i]
		a.ClientNetns, a.ServerNetns = nil, nil
		a.ClientPins, a.ServerPins = "", ""
		a.Ends = slices.Clone(a.Ends)
		for i := range a.Ends {
			for _, end := range []*host.Endpoint{&a.Ends[i].From, &a.Ends[i].To} {
				end.Namespace, end.Agent = "", ""
			}
		}
	}
	return p
}

// guestClient is the active end of the arms whose clients are in one virtual machine.
type guestClient struct {
	client   Client
	arms     []int // by the index that they have in there
	observer SliceObserver
	dialErr  error // why there is no client
}

func openGuestClient(ctx context.Context, plan load.Plan, g agentArms, observer SliceObserver, guests GuestDialer) *guestClient {
	d := &guestClient{arms: g.arms, observer: observer, dialErr: errNoDialer}
	switch {
	case !slices.ContainsFunc(g.arms, plan.Schedules):
	case guests != nil:
		d.client, d.dialErr = guests.Open(ctx, g.agent, forGuest(plan, g.arms))
	}
	return d
}

// Measure implements [Client]. The clock of this machine dates the slice.
func (d *guestClient) Measure(arm, round int) load.SliceResult {
	if d.dialErr != nil {
		return failedSlice(arm, round, fmt.Errorf("open client end: %w", d.dialErr))
	}
	start := time.Now()
	if d.observer != nil {
		d.observer.Begin(arm)
	}
	s := d.client.Measure(slices.Index(d.arms, arm), round)
	if d.observer != nil && s.Err == nil {
		d.observer.End(arm)
	}
	s.Arm, s.Round, s.Start = arm, round, start
	return s
}

// Close implements [Client].
func (d *guestClient) Close() {
	if d.client != nil {
		d.client.Close()
	}
}

// serveGuests opens the passive ends in all virtual machines at once, so that several
// that do not answer cost one timeout.
func (s *Server) serveGuests(groups []agentArms, guests GuestDialer) {
	served, errs := make([]GuestServer, len(groups)), make([]error, len(groups))
	var wait sync.WaitGroup
	for i, g := range groups {
		errs[i] = errNoDialer
		if guests != nil {
			wait.Go(func() { served[i], errs[i] = guests.Serve(g.agent, forGuest(s.plan, g.arms)) })
		}
	}
	wait.Wait()
	for i, g := range groups {
		if errs[i] != nil {
			for _, arm := range g.arms {
				s.failedArms[arm] = fmt.Errorf("open server end: %w", errs[i])
			}
			continue
		}
		s.guests = append(s.guests, served[i])
		for at, why := range served[i].FailedArms() {
			if at >= 0 && at < len(g.arms) {
				s.failedArms[g.arms[at]] = why
			}
		}
	}
}

// closeGuests closes what serveGuests opened, all at once.
func (s *Server) closeGuests() error {
	errs := make([]error, len(s.guests))
	var wait sync.WaitGroup
	for i, served := range s.guests {
		wait.Go(func() { errs[i] = served.Close() })
	}
	wait.Wait()
	return errors.Join(errs...)
}
