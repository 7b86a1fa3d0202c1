package mesh

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// Samples are what was measured.
type Samples struct {
	Nodes  []Member
	Loads  []load.Load
	Passes int // that were begun
	Rounds int // of all passes
	Took   time.Duration
	// values are figures in base units, by load, pass, and from one node to another; NaN: none.
	values [][][]float64
	// failures are why pairs were not measured, by load, and from one node to another.
	failures []map[nodePair]failure
	lost     map[int]error // nodes, and why
}

// failure is a pair that was not measured.
type failure struct {
	times  int // in a row
	reason string
}

// hopeless is after how many failures in a row, and no success, a pair is left alone: each of
// them may keep its round waiting for seconds.
const hopeless = 2

// pairRun is a pair that is measured in a round.
type pairRun struct {
	nodePair // from a to b
	series   load.Plan
	value    float64
	err      error
}

// run measures a mesh.
type run struct {
	options Options
	*Samples
	channels Channels // nil: agents need none
	rng      *rand.Rand
	deadline time.Time
	rounds   int // so far, in each direction: of their own ports
}

// Measure measures all pairs of nodes, pass by pass, until the budget is spent. A node that is
// lost, and a pair between which nothing passes, cost themselves alone. Error: those for people,
// and that of the context; what was measured until then is there.
func Measure(ctx context.Context, nodes []Member, o Options, channels Channels) (*Samples, error) {
	o, err := o.complete(nodes)
	if err != nil {
		return nil, err
	}
	r := &run{options: o, channels: channels, rng: rand.New(rand.NewPCG(o.Seed, 1)),
		Samples: &Samples{Nodes: nodes, Loads: o.Loads, lost: map[int]error{}, values: make([][][]float64, len(o.Loads))}}
	for range o.Loads {
		r.failures = append(r.failures, map[nodePair]failure{})
	}
	began := time.Now()
	r.deadline = began.Add(o.Budget)
	o.Say("measuring %d pairs, about %s a pass, at most %d passes and %s", stats.PairCount(len(nodes)), o.passTime(nodes).Round(time.Second), o.Passes, o.Budget)
	for r.Passes < o.Passes && ctx.Err() == nil && len(r.lost) < len(nodes)-1 {
		each := time.Since(began) / time.Duration(max(r.Passes, 1))
		if r.Passes >= stats.MinMeshPasses && time.Now().Add(each).After(r.deadline) || time.Now().After(r.deadline) {
			break
		}
		if r.Passes > 0 {
			o.Say("pass %d; the last took %s", r.Passes+1, each.Round(100*time.Millisecond))
		}
		r.measurePass(ctx)
	}
	r.Took = time.Since(began)
	return r.Samples, ctx.Err()
}

// measurePass measures every pair once.
func (r *run) measurePass(ctx context.Context) {
	n := len(r.Nodes)
	for l := range r.Loads {
		none := make([]float64, n*n)
		for i := range none {
			none[i] = math.NaN()
		}
		r.values[l] = append(r.values[l], none)
	}
	r.Passes++
	for _, round := range schedule(zonesOf(r.Nodes), r.options.Parallel, r.rng) {
		for i, p := range round {
			if r.rng.IntN(2) == 0 {
				round[i] = nodePair{p.b, p.a}
			}
		}
		for l, load := range r.Loads {
			for range directions(load) {
				if ctx.Err() != nil || time.Now().After(r.deadline) || len(r.lost) >= len(r.Nodes)-1 {
					return
				}
				r.measureRound(ctx, l, round)
				for i, p := range round {
					round[i] = nodePair{p.b, p.a}
				}
			}
		}
		r.Rounds++
	}
}

// measureRound measures the pairs of a round, with one load in one direction.
func (r *run) measureRound(ctx context.Context, l int, round []nodePair) {
	r.rounds++
	var runs []*pairRun
	for _, p := range round {
		if r.lost[p.a] == nil && r.lost[p.b] == nil && r.failures[l][p].times < hopeless {
			runs = append(runs, &pairRun{nodePair: p, series: r.series(r.Loads[l], p)})
		}
	}
	if len(runs) == 0 {
		return
	}
	r.runPairs(ctx, runs, r.Loads[l])
	for _, p := range round {
		for _, node := range []int{p.a, p.b} {
			if err := r.Nodes[node].Agent.LossReason(); err != nil && r.lost[node] == nil {
				r.lost[node] = err
				r.options.Say("going on without node %s: %v", r.Nodes[node].Name, err)
			}
		}
	}
	n := len(r.Nodes)
	for _, t := range runs {
		switch {
		case t.err == nil:
			r.values[l][r.Passes-1][t.a*n+t.b] = t.value
			delete(r.failures[l], t.nodePair)
		case ctx.Err() == nil && r.lost[t.a] == nil && r.lost[t.b] == nil:
			r.failures[l][t.nodePair] = failure{r.failures[l][t.nodePair].times + 1, t.err.Error()}
		}
	}
}

// runPairs measures pairs at the same time. Those of a node that is lost end at once.
func (r *run) runPairs(ctx context.Context, pairs []*pairRun, of load.Load) {
	contexts, cancels := make([]context.Context, len(pairs)), make([]context.CancelFunc, len(pairs))
	for i := range pairs {
		contexts[i], cancels[i] = context.WithCancel(ctx)
		defer cancels[i]()
	}
	if r.channels != nil {
		defer r.channels.Quiet(ctx, pairs[0].series, func() {
			for i, t := range pairs {
				if errors.Join(r.Nodes[t.a].Agent.LossReason(), r.Nodes[t.b].Agent.LossReason()) != nil {
					cancels[i]()
				}
			}
		})()
	}
	var measuring sync.WaitGroup
	for i, t := range pairs {
		measuring.Go(func() {
			t.value, t.err = measure(contexts[i], r.Nodes[t.a].Agent, r.Nodes[t.b].Agent, t.series, of.Metric)
		})
	}
	measuring.Wait()
}

// measure gives the median of the slices of a series of one arm.
func measure(ctx context.Context, client, server Peer, series load.Plan, metric result.Metric) (float64, error) {
	shut, err := server.Serve(ctx, series, nil)
	if err != nil {
		return 0, err
	}
	var measured []load.SliceResult
	if err = shut[0]; err == nil {
		measured, _, err = client.Run(ctx, series, nil)
	}
	_, finishErr := server.Finish(ctx, series.Token)
	if err = cmp.Or(err, finishErr); err != nil {
		return 0, err
	}
	var values []float64
	for _, m := range measured {
		if m.Err != nil {
			return 0, m.Err
		}
		if v, ok := (&result.Slice{Elapsed: m.Elapsed.Nanoseconds(), Latency: m.Latency, Stream: m.Stream}).Value(metric); ok && v > 0 {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0, errors.New("nothing arrived")
	}
	return stats.Median(values), nil
}

// Ports of a mesh are those of all loads. Each round has others, so that it never meets the
// closed connections of an earlier one.
const (
	clientPorts = 10300 // below are those at which Kubernetes' programs listen on a node, 10248 to 10259
	serverPorts = 20000
	portSpan    = 9700
)

// series is what a pair does in a round.
func (r *run) series(l load.Load, p nodePair) load.Plan {
	at := r.rounds % portSpan
	series := load.Plan{Token: r.rng.Uint64(), Load: l.Name, Size: l.Size, Flows: 1, Slice: l.Slice, Head: l.Head, ClientCPU: -1, ServerCPU: -1,
		Arms: []load.Arm{{Name: r.Nodes[p.a].Name + ">" + r.Nodes[p.b].Name, Ends: []load.Pair{{From: r.Nodes[p.a].End, To: r.Nodes[p.b].End}},
			ClientPort: clientPorts + at, ServerPort: serverPorts + at}}}
	_, _ = crand.Read(series.Nonce[:]) // it never fails
	for range slicesPerPair {
		series.Schedule = append(series.Schedule, []int{0})
	}
	return series
}
