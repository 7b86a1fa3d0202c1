// Package mesh measures all pairs of some nodes, as many at a time as do not disturb each other,
// and names the nodes and pairs that are slower than the rest.
//
// A pass is a round-robin tournament: in each round a node is in one pair at most, so n nodes take
// about n rounds, and a round takes as many calls as there are nodes. Passes are repeated, each in
// another random order, so that what happens on a machine for some seconds falls on other pairs
// each time. Package stats says what is slow.
package mesh

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verr"
)

// Peer is the agent of a node.
type Peer interface {
	experiment.ClientAgent
	experiment.ServerAgent
	// LossReason is why nothing more is to be had of it; nil: it is there.
	LossReason() error
}

// Member is one node of a mesh.
type Member struct {
	Name  string
	Zone  string // whose uplink it shares; empty: it shares none
	End   host.Endpoint
	Agent Peer
}

// Channels are those to the agents of a mesh.
type Channels interface {
	// Quiet keeps them silent while a series runs between agents, until end is called. onLoss is
	// called when an agent is lost meanwhile.
	Quiet(ctx context.Context, series load.Plan, onLoss func()) (end func())
}

// Options say what is measured, and what counts as slow.
type Options struct {
	Loads    []load.Load
	Budget   time.Duration // 0: by the number of nodes
	Passes   int           // at most
	Parallel int           // pairs at a time; 0: any number
	Margin   float64       // up to 0.05 slower than expected is not slow: 0.05
	Seed     uint64
	Say      func(format string, args ...any)
}

// Defaults of a mesh.
const (
	DefaultPasses = 20
	DefaultMargin = 0.05

	// budgetPerNode makes 10 minutes of 100 nodes.
	budgetPerNode = 6 * time.Second
	leastBudget   = time.Minute
	slicesPerPair = 3
)

// DefaultLoads are those that are measured if none is named: the one shows what a path costs a
// packet, the other what it carries.
var DefaultLoads = []string{"tcp_lat", "tcp_bw"}

// ErrorRate is the probability with which anything is named that is not slow, at most.
const ErrorRate = 0.05

// pairCost is what measuring a pair takes beside its slices: three calls to agents, as far as an
// API server is, and to open and warm up a connection.
const pairCost = 80 * time.Millisecond

// directions is in how many directions a pair is measured: what is sent one way may be slow in
// one of them only.
func directions(l load.Load) int {
	if l.Kind == load.Stream {
		return 2
	}
	return 1
}

// roundTime foretells how long a round takes: all its pairs are measured at the same time.
func roundTime(loads []load.Load) (total time.Duration) {
	for _, l := range loads {
		total += time.Duration(directions(l)) * (pairCost + slicesPerPair*(l.Head+l.Slice))
	}
	return total
}

// complete fills in what is not said, and refuses what makes no sense. Errors are for people.
func (o Options) complete(nodes []Member) (Options, error) {
	if len(nodes) < 2 {
		return o, verr.New(verr.Usage, "cannot measure a mesh", fmt.Sprintf("a pair takes two, and the mesh has %d", len(nodes)), "name at least two; in a cluster, they have to be ready")
	}
	what := fmt.Sprintf("cannot measure the pairs of %d nodes", len(nodes))
	for _, l := range o.Loads {
		if l.Kind == load.Connect || l.Kind == load.Scheduled {
			return o, verr.New(verr.Usage, what+" with "+l.Name, "only ping-pongs and streams are short enough", "choose from tcp_lat, udp_lat, tcp_rr, udp_rr, tcp_bw and udp_bw")
		}
	}
	o.Passes = cmp.Or(o.Passes, DefaultPasses)
	pass := o.passTime(nodes)
	least := time.Duration(min(stats.MinMeshPasses, o.Passes)) * pass
	if o.Budget == 0 {
		o.Budget = max(leastBudget, time.Duration(len(nodes))*budgetPerNode, least)
	}
	if least > o.Budget {
		return o, verr.New(verr.Usage, fmt.Sprintf("%s with --budget %s", what, o.Budget),
			fmt.Sprintf("%d passes take about %s, and fewer tell nothing", stats.MinMeshPasses, least.Round(time.Second)),
			"give a larger --budget, or fewer nodes or loads; without --zone-label and --parallel more pairs are measured at a time")
	}
	return o, nil
}

// passTime foretells how long a pass takes.
func (o Options) passTime(nodes []Member) time.Duration {
	rounds := schedule(zonesOf(nodes), o.Parallel, rand.New(rand.NewPCG(o.Seed, 0)))
	return time.Duration(len(rounds)) * roundTime(o.Loads)
}

func zonesOf(nodes []Member) (zones []string) {
	for _, n := range nodes {
		zones = append(zones, n.Zone)
	}
	return zones
}

// FindLoads gives loads by their names. Errors are for people.
func FindLoads(names []string) (loads []load.Load, err error) {
	for _, name := range names {
		l, err := load.Find(name)
		if err != nil {
			return nil, err
		}
		loads = append(loads, l)
	}
	return loads, nil
}
