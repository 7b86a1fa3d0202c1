package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verify"
)

// Live flows send in turn, each a datagram at a time. A core keeps copies of 2,048
// flows at most: when the turn of one comes again, its copy has made room for those
// of others, and it is looked up in the table.
const (
	liveNear  = 1000 // sockets of the client
	liveFar   = 10   // and of the server; each pair is a flow
	liveFlows = liveNear * liveFar

	liveClientPort = 24000
	liveServerPort = 23000

	// carriedShare is how many of the packets must be carried for a figure to be that
	// of the fast path.
	carriedShare = 0.98

	liveRounds = 16
	liveSlice  = 100 * time.Millisecond
)

// livePatience bounds the wait until all are learned, which takes half a minute
// where nothing else goes on.
var livePatience = host.ScaleTimeout(2 * time.Minute)

// live are those of a path.
type live struct {
	*load.RoundRobin
	arm lab.Arm
}

func openLive(arm lab.Arm) (*live, error) {
	r, err := load.OpenRoundRobin(load.Pair{From: arm.Client(), To: arm.Server()}, liveNear, liveFar, liveClientPort, liveServerPort, 0, 1)
	if err != nil {
		return nil, fmt.Errorf("open %d flows on %s: %w", liveFlows, arm.Name, err)
	}
	return &live{r, arm}, nil
}

// learn sends one request on each flow in turn, tour after tour, until the fast path
// carries nearly all of them: it learns from ordinary traffic and nothing else.
func (l *live) learn(ctx context.Context) error {
	before, err := countsOf(l.arm)
	if err != nil {
		return err
	}
	share := 0.0
	for end := time.Now().Add(livePatience); err == nil && share < carriedShare && time.Now().Before(end); {
		if err = ctx.Err(); err == nil {
			share, err = l.tour()
		}
	}
	if err != nil || share >= carriedShare {
		return err
	}
	after, err := countsOf(l.arm)
	if err != nil {
		return err
	}
	return fmt.Errorf("of %d flows in turn, %s carries %.0f %% of the packets after %v; since they began: %s",
		l.Flows(), l.arm.Name, 100*share, livePatience, became(before, after))
}

// tour tells which share of a tour the fast path carried.
func (l *live) tour() (share float64, err error) {
	_, share, err = l.carried(func() (load.Trips, error) { return l.Tour(0, l.Flows(), 1) })
	return share, err
}

// became says what became of packets from one moment to another.
func became(before, after [bpf.Counts]uint64) string {
	var all []string
	for c := range bpf.Counts {
		if n := after[c] - before[c]; n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, c))
		}
	}
	return strings.Join(all, ", ")
}

// carried tells which share of the packets the fast path carried: of a request and its
// reply, both machines see each.
func (l *live) carried(what func() (load.Trips, error)) (trips load.Trips, share float64, err error) {
	before, err := l.count()
	if err != nil {
		return trips, 0, err
	}
	if trips, err = what(); err != nil {
		return trips, 0, err
	}
	after, err := l.count()
	return trips, float64(after-before) / float64(4*max(1, trips.Requests)), err
}

// count is how many packets the fast path has carried.
func (l *live) count() (packets uint64, err error) {
	stats, err := countsOf(l.arm)
	return stats[bpf.CarriedOut] + stats[bpf.CarriedIn], err
}

// manyFlows measures the latency of live flows in turn, while the table holds no
// others, and while it holds as many as make a million of them.
func manyFlows(ctx context.Context, w io.Writer, arms []lab.Arm, tables ballasts, budget time.Duration, seed uint64) (bars []verify.Bar, err error) {
	var ends [2]*live // of the host network, and of the path
	for i, arm := range arms[:2] {
		if ends[i], err = openLive(arm); err != nil {
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
		measure: func(_ context.Context, rng *rand.Rand) (moment, error) { return measureLive(ends, rng) },
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
		ratio, host := between(seen[i], seen[0], inTurn, true), overHost(seen[i], inTurn)
		fmt.Fprintf(w, "%-10s %-14s %-26s %s\n", inTurn, name, interval(host), interval(ratio))
		bars = append(bars, judgeInTurn(fmt.Sprintf("flows: %s of %d in turn with %s", inTurn, liveFlows, name), host)...)
		if i > 0 {
			bars = append(bars, judgeSame(fmt.Sprintf("flows: %s of %d in turn with %s", inTurn, liveFlows, name), "that with no others", ratio)...)
		}
	}
	return bars, nil
}

// inTurn is the load of live flows.
const inTurn = "udp_lat"

// judgeInTurn holds their latency against what that of one flow alone may be.
func judgeInTurn(what string, r *stats.Ratio) []verify.Bar {
	return judged(what, fmt.Sprintf("%s: %s of the host network, %s", what, interval(r), limits(true, udpLatencyBar)), r, reaches(r, udpLatencyBar, true))
}

// measureLive measures them for a moment, on the host network and on the path in turn.
func measureLive(ends [2]*live, rng *rand.Rand) (moment, error) {
	var path, ratio []float64
	for range liveRounds {
		var logs [2]float64
		ok := true
		for _, i := range rng.Perm(len(ends)) {
			trips, carried, err := ends[i].carried(func() (load.Trips, error) { return ends[i].Ping(liveSlice) })
			if err != nil {
				return nil, err
			}
			// A slice in which packets went slow tells nothing of the fast path.
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
	return moment{inTurn: {stats.Median(path), stats.Median(ratio)}}, nil
}
