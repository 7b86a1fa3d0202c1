package compare

import (
	"context"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Gauge measures the first path of a session again and again, in whatever state
// it is then.
type Gauge struct{ run experiment.Run }

// Gauge readies a gauge. Of the request Cells, Rounds and Seed count; TCP has the
// congestion control of the ends' namespaces. Error: ends in virtual machines.
func (s *Session) Gauge(q Request) (*Gauge, error) {
	q.NoHost, q.NoCopy, q.Series = true, true, 1
	q = q.withDefaults()
	if err := q.check(); err != nil {
		return nil, err
	}
	arms, ends := s.arms(q)
	for _, p := range ends[0].Pairs {
		if p.From.Agent != "" || p.To.Agent != "" {
			return nil, verr.New(verr.Usage, "cannot measure path "+arms[0].Name+" in several states", "its ends are in virtual machines", "choose another path")
		}
	}
	plan, err := q.plan(arms[:1])
	if err != nil {
		return nil, err
	}
	plan.Series = 1
	return &Gauge{experiment.Run{
		Plan: plan, Ends: ends[:1], Near: s.agents[0], Far: s.agents[1],
		Died:      func(int) error { return s.lab.Died(strings.TrimSuffix(arms[0].Name, copySuffix)) },
		NearMeter: []string{"cpu", "softnet", "tcp", "udp", "links"}, FarMeter: []string{"tcp", "udp", "links"},
	}}, nil
}

// Once measures every cell once, on fresh sockets. See [experiment.Run.Once].
func (g *Gauge) Once(ctx context.Context) (*result.Record, error) { return g.run.Once(ctx) }

// Foretold is how long one measurement takes, about.
func (g *Gauge) Foretold() time.Duration { return experiment.Duration(g.run.Plan, Slow()) }

// Spaces are the network namespaces that the first path of a session lies in, as
// files. Those of paths that somebody else built are ends only.
type Spaces struct {
	Machines []string // of machines, and of switches on them
	Pods     []string // of the ends, where these are not machines
}

// Spaces gives them.
func (s *Session) Spaces() Spaces {
	var out Spaces
	arm := s.lab.Arms[0]
	for i, m := range s.lab.Machines[:len(arm.Ends)] {
		if crossed := crossed(m, arm.Name); crossed != nil {
			out.Machines = append(out.Machines, once(append(crossed, m.Namespace))...)
		}
		for _, e := range arm.Ends[i] {
			if e.Namespace != m.Namespace {
				out.Pods = append(out.Pods, e.Namespace)
			}
		}
	}
	return out
}
