// Package prooflab raises a lab with one path, and measures the path in many states, for
// proofs of tuning.
package prooflab

import (
	"context"
	"errors"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/tune"
)

// ProofLab is a path that is up, ready to be measured in many states.
type ProofLab struct {
	Gauge    *compare.Gauge
	Seed     uint64
	PairTime time.Duration // about how long it takes to measure two states
	session  *compare.Session
}

// One measurement of a state is some slices of each load. It takes half a second, so that
// two states are compared before the machine has changed.
const (
	rounds = 4
	slice  = 20e6 // ns
)

// Request asks for the lab of one path, with the loads of a proof.
func Request(path, wire string) compare.Request {
	return compare.Request{
		Paths: []string{path}, NoHost: true, NoCopy: true, Wire: wire,
		Loads: tune.ProveLoads(), Slice: slice, Rounds: rounds, Series: 1, Wait: true,
	}
}

// PairTime is about how long it will take to measure two states.
func PairTime(q compare.Request) (time.Duration, error) {
	plan, err := q.Plan()
	if err != nil {
		return 0, err
	}
	return tune.PairOnces * experiment.Duration(plan, compare.Slow()), nil
}

// Open raises the lab.
func Open(ctx context.Context, q compare.Request, h compare.Host) (*ProofLab, error) {
	s, r, err := compare.OpenRequest(ctx, q, h)
	if err != nil {
		return nil, err
	}
	g, err := s.Gauge(r)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &ProofLab{Gauge: g, Seed: r.Plan().Seed, PairTime: tune.PairOnces * g.EstimatedDuration(), session: s}, nil
}

// Close takes the lab down.
func (p *ProofLab) Close() error { return p.session.Close() }

// MachineNames are those of the two machines.
func (p *ProofLab) MachineNames() []string { return p.session.MachineNames() }

// Agents are those of the two machines.
func (p *ProofLab) Agents() []*agent.Client { return p.session.Agents() }

// Targets adds to some targets all that the path is made of.
func (p *ProofLab) Targets(t tune.Targets) (tune.Targets, error) {
	spaces, err := p.session.Namespaces()
	if err != nil {
		return t, err
	}
	t.Machines = append(t.Machines, spaces.Machines...)
	t.Pods = append(t.Pods, spaces.Pods...)
	for _, d := range spaces.Devices {
		on := knob.Target{Netns: d.Namespace, Device: d.Name}
		if d.Card {
			t.NICs = append(t.NICs, on)
			continue
		}
		if err := t.AddDevice(on); err != nil {
			return t, err
		}
	}
	return t, nil
}
