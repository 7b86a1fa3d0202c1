package compare

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/result"
)

// serverGroup is the servers of arms that several agents have. Each gets the plan with the
// arms that it serves. What is run stays one series: the client's agent alone drives it.
type serverGroup struct {
	members []groupMember
	// agentOf says which member serves an arm.
	agentOf map[string]int
	serving []int // members that serve the series that is open
}

// groupMember is one agent, with the meters that it runs beside its servers.
type groupMember struct {
	experiment.ServerAgent
	meters   []string
	affinity *affinity // of its servers; nil: that of the plan
}

// Serve opens the servers of every arm where they are.
func (g *serverGroup) Serve(ctx context.Context, plan load.Plan, _ []string) (map[int]error, error) {
	failed := make([]map[int]error, len(g.members))
	numbers := make([][]int, len(g.members))
	g.serving = nil
	var work errgroup.Group
	for m, member := range g.members {
		var part load.Plan
		if part, numbers[m] = partOf(plan, g.agentOf, m); len(part.Arms) == 0 {
			continue
		}
		if member.affinity != nil {
			pinEnds(&part, unpinned, *member.affinity)
		}
		g.serving = append(g.serving, m)
		work.Go(func() (err error) {
			failed[m], err = member.Serve(ctx, part, member.meters)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		for m := range g.members {
			if failed[m] != nil {
				_, _ = g.members[m].Finish(ctx, plan.Token) // the error is that of Serve
			}
		}
		return nil, err
	}
	all := map[int]error{}
	for m, arms := range failed {
		for arm, why := range arms {
			all[numbers[m][arm]] = why
		}
	}
	return all, nil
}

// Finish ends what Serve began.
func (g *serverGroup) Finish(ctx context.Context, token uint64) (all []result.Meter, err error) {
	for _, m := range g.serving {
		meters, finishErr := g.members[m].Finish(ctx, token)
		all, err = append(all, meters...), errors.Join(err, finishErr)
	}
	return all, err
}

// server is what opens the servers of a session.
func (s *Session) server(meters []string) experiment.ServerAgent {
	if s.servers == nil {
		return s.machines[1].agent
	}
	g := *s.servers
	g.members = slices.Clone(g.members)
	for i := range g.members {
		if g.members[i].meters == nil {
			g.members[i].meters = meters
		}
	}
	return &g
}
