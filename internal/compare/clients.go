package compare

import (
	"context"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/result"
)

// clientGroup is the clients of arms that several agents have. A series stays one: its slices
// come one after the other, in the plan's order, whoever has them.
type clientGroup struct {
	live    *agent.Liveness
	members []testMachine
	agentOf map[string]int // by arm
}

// Run drives a series.
func (g *clientGroup) Run(ctx context.Context, plan load.Plan, meters []string) ([]load.SliceResult, []result.Meter, error) {
	var parts []agent.SeriesPart
	for m, member := range g.members {
		part, numbers := partOf(plan, g.agentOf, m)
		if len(numbers) == 0 {
			continue
		}
		pinEnds(&part, member.affinity, unpinned)
		parts = append(parts, agent.SeriesPart{Agent: member.agent, Plan: part, Arms: numbers, Meters: meters})
	}
	return g.live.Drive(ctx, plan, parts)
}

// partOf is a plan with the arms that a member of a group has, and their numbers in the whole.
func partOf(plan load.Plan, agentOf map[string]int, member int) (part load.Plan, numbers []int) {
	for i, arm := range plan.Arms {
		if agentOf[arm.Name] == member {
			numbers = append(numbers, i)
		}
	}
	return plan.Subset(numbers), numbers
}

// newGroups makes the groups of a comparison between more than two machines.
func newGroups(r *Resolved, machines []testMachine, live *agent.Liveness) (*clientGroup, *serverGroup) {
	clients := &clientGroup{live: live, members: machines, agentOf: map[string]int{}}
	servers := &serverGroup{agentOf: map[string]int{}}
	for _, m := range machines {
		servers.members = append(servers.members, groupMember{ServerAgent: m.agent, affinity: &m.affinity})
	}
	for i, arm := range r.plan.Arms {
		pair := r.pairs[r.pathOf[i]]
		clients.agentOf[arm.Name], servers.agentOf[arm.Name] = pair[0], pair[1]
	}
	return clients, servers
}

// client is what drives the series of a session.
func (s *Session) client() experiment.ClientAgent {
	if s.clients == nil {
		return s.machines[0].agent
	}
	return s.clients
}
