package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/venturi-net/venturi/internal/bench/pods"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verify"
)

// Round-robin flows send one datagram each in turn. A core keeps copies of 2,048 flows at
// most: when it is the turn of a flow again, its copy is gone, and the flow is looked up
// in the table.
const (
	liveClients = 1000 // sockets of the client
	liveServers = 10   // and of the server; each pair is a flow
	liveFlows   = liveClients * liveServers

	liveClientPort = 24000
	liveServerPort = 23000

	// carriedShare is how many of the packets must be carried for a figure to be that
	// of the fast path.
	carriedShare = 0.98

	liveRounds = 16
	liveSlice  = 100 * time.Millisecond
)

// learnTimeout bounds the wait until all flows are learned, which takes half a minute on
// an idle machine.
var learnTimeout = host.ScaleTimeout(2 * time.Minute)

// flowSet is the flows on one path.
type flowSet struct {
	*engine.RoundRobin
	arm lab.Arm
}

func openFlowSet(arm lab.Arm) (*flowSet, error) {
	r, err := engine.OpenRoundRobin(load.Pair{From: arm.Client(), To: arm.Server()}, liveClients, liveServers, liveClientPort, liveServerPort, 0, 1)
	if err != nil {
		return nil, fmt.Errorf("open %d flows on %s: %w", liveFlows, arm.Name, err)
	}
	return &flowSet{r, arm}, nil
}

// learn sends one request on each flow in turn, tour after tour, until the fast path
// carries nearly all of them: it learns from ordinary traffic and nothing else.
func (l *flowSet) learn(ctx context.Context) error {
	before, err := pods.CountsOf(l.arm.Pins)
	if err != nil {
		return err
	}
	share := 0.0
	for end := time.Now().Add(learnTimeout); err == nil && share < carriedShare && time.Now().Before(end); {
		if err = ctx.Err(); err == nil {
			share, err = l.tour()
		}
	}
	if err != nil || share >= carriedShare {
		return err
	}
	after, err := pods.CountsOf(l.arm.Pins)
	if err != nil {
		return err
	}
	return fmt.Errorf("of %d flows in turn, %s carries %.0f %% of the packets after %v; since they began: %s",
		l.Flows(), l.arm.Name, 100*share, learnTimeout, pods.CountsText(before, after))
}

// tour tells which share of a tour the fast path carried.
func (l *flowSet) tour() (share float64, err error) {
	_, share, err = l.measureCarried(func() (engine.Trips, error) { return l.Tour(0, l.Flows(), 1) })
	return share, err
}

// measureCarried tells which share of the packets the fast path carried. Both machines
// see each request and its reply.
func (l *flowSet) measureCarried(what func() (engine.Trips, error)) (trips engine.Trips, share float64, err error) {
	before, err := l.carriedPackets()
	if err != nil {
		return trips, 0, err
	}
	if trips, err = what(); err != nil {
		return trips, 0, err
	}
	after, err := l.carriedPackets()
	return trips, float64(after-before) / float64(4*max(1, trips.Requests)), err
}

// carriedPackets counts the packets that the fast path has carried.
func (l *flowSet) carriedPackets() (packets uint64, err error) {
	stats, err := pods.CountsOf(l.arm.Pins)
	return stats[bpf.CarriedOut] + stats[bpf.CarriedIn], err
}

// manyFlows measures the latency of live flows in turn, while the table holds no
// others, and while it holds as many as make a million of them.
func manyFlows(ctx context.Context, w io.Writer, arms []lab.Arm, tables ballasts, budget time.Duration, seed uint64) (limits []verify.Requirement, err error) {
	var ends [2]*flowSet // of the host network, and of the path
	for i, arm := range arms[:2] {
		if ends[i], err = openFlowSet(arm); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, ends[i].Close()) }()
	}
	totals := []int{liveFlows, 1_000_000}
	s := &states{
		enter: func(ctx context.Context, state int) error {
			if err := tables.hold(totals[state] - liveFlows); err != nil {
				return err
			}
			return ends[1].learn(ctx)
		},
		measure: func(_ context.Context, rng *rand.Rand) (sample, error) { return measureFlowSets(ends, rng) },
	}
	for _, n := range totals {
		s.names = append(s.names, fmt.Sprintf("%d flows", n))
	}
	seen, err := s.run(ctx, budget, seed)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "%s, 0 Services, %d flows that send in turn, each looked up in the table; %d times each in turn\n\n", arms[1].Name, liveFlows, len(seen[0]))
	fmt.Fprintf(w, "%-10s %-14s %-26s %s\n", "load", "in the table", "to host", "to "+s.names[0])
	for i, name := range s.names {
		ratio, host := ratioBetween(seen[i], seen[0], roundRobinLoad, true), ratioToHost(seen[i], roundRobinLoad)
		fmt.Fprintf(w, "%-10s %-14s %-26s %s\n", roundRobinLoad, name, interval(host), interval(ratio))
		limits = append(limits, judgeRoundRobin(fmt.Sprintf("flows: %s of %d in turn with %s", roundRobinLoad, liveFlows, name), host)...)
		if i > 0 {
			limits = append(limits, judgeSame(fmt.Sprintf("flows: %s of %d in turn with %s", roundRobinLoad, liveFlows, name), "that with no others", ratio)...)
		}
	}
	return limits, nil
}

// roundRobinLoad is the load of round-robin flows.
const roundRobinLoad = "udp_lat"

// judgeRoundRobin compares their latency with the limit for one flow alone.
func judgeRoundRobin(what string, r *stats.Ratio) []verify.Requirement {
	return ratioLimits(what, fmt.Sprintf("%s: %s of the host network, %s", what, interval(r), boundText(true, udpLatencyLimit)), r, meetsLimit(r, udpLatencyLimit, true))
}

// measureFlowSets takes a sample of the host network and of the path, in turn.
func measureFlowSets(ends [2]*flowSet, rng *rand.Rand) (sample, error) {
	var path, ratio []float64
	for range liveRounds {
		var logs [2]float64
		ok := true
		for _, i := range rng.Perm(len(ends)) {
			trips, carried, err := ends[i].measureCarried(func() (engine.Trips, error) { return ends[i].Ping(liveSlice) })
			if err != nil {
				return nil, err
			}
			// A slice in which packets took the slow path says nothing about the fast path.
			ok = ok && trips.Median > 0 && (ends[i].arm.Pins == nil || carried >= carriedShare)
			logs[i] = math.Log(float64(trips.Median))
		}
		if ok {
			path, ratio = append(path, logs[1]), append(ratio, logs[1]-logs[0])
		}
	}
	if len(path) == 0 {
		return nil, fmt.Errorf("measure %d flows in turn on %s: no round of it has a figure", liveFlows, ends[1].arm.Name)
	}
	return sample{roundRobinLoad: {stats.Median(path), stats.Median(ratio)}}, nil
}
