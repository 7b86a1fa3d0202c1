package verify

import (
	"context"
	"errors"
	"time"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/tune"
)

// Prove is a path that is up, ready to be measured in many states.
type Prove struct {
	Gauge   *compare.Gauge
	Seed    uint64
	Pair    time.Duration // that measuring two states takes, about
	session *compare.Session
}

// What one measurement of a state is: slices of each load. It takes half a second,
// so that two states are compared before the machine has changed.
const (
	proveRounds = 4
	proveSlice  = 20e6 // ns
)

// ProveRequest asks for the lab of one path, with the loads that a proof wants.
func ProveRequest(path, wire string) compare.Request {
	return compare.Request{
		Paths: []string{path}, NoHost: true, NoCopy: true, Wire: wire,
		Loads: tune.ProveLoads(), Slice: proveSlice, Rounds: proveRounds, Series: 1, Wait: true,
	}
}

// PairTime is how long the measurements of two states will take, about.
func PairTime(q compare.Request) (time.Duration, error) {
	plan, err := q.Plan()
	if err != nil {
		return 0, err
	}
	return tune.PairOnces * experiment.Duration(plan, compare.Slow()), nil
}

// OpenProve raises the lab.
func OpenProve(ctx context.Context, q compare.Request, h compare.Host) (*Prove, error) {
	r, err := q.Resolve()
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		return nil, err
	}
	s, err := compare.Open(ctx, r, h)
	if err != nil {
		return nil, err
	}
	g, err := s.Gauge(r)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &Prove{Gauge: g, Seed: r.Plan().Seed, Pair: tune.PairOnces * g.EstimatedDuration(), session: s}, nil
}

// Close takes the lab down.
func (p *Prove) Close() error { return p.session.Close() }

// Targets adds to some targets all that the path is made of.
func (p *Prove) Targets(t tune.Targets) (tune.Targets, error) {
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
