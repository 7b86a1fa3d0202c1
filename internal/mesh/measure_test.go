package mesh

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/plain"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// world is simulated nodes, and what lies between them.
type world struct {
	mu     sync.Mutex
	rng    *rand.Rand
	nodes  []*simulated
	calls  atomic.Int64
	slower func(load string, from, to int) float64 // a factor
	broken func(from, to int) error
	lose   map[int]time.Time // nodes, and when they are lost
}

// simulated is the agent of a simulated node.
type simulated struct {
	*world
	number  int
	serving atomic.Int64
}

func newWorld(nodes int) *world {
	w := &world{rng: rand.New(rand.NewPCG(1, 2)), slower: func(string, int, int) float64 { return 1 }, broken: func(int, int) error { return nil }}
	for i := range nodes {
		w.nodes = append(w.nodes, &simulated{world: w, number: i})
	}
	return w
}

func (w *world) mesh() (nodes []Member) {
	for i, s := range w.nodes {
		nodes = append(nodes, Member{Name: fmt.Sprint("n", i), Agent: s})
	}
	return nodes
}

var errLost = errors.New("its process ended")

func (s *simulated) LossReason() error {
	if at, ok := s.lose[s.number]; ok && time.Now().After(at) {
		return errLost
	}
	return nil
}

// callTime is what a call takes that goes by an API server.
const callTime = 12 * time.Millisecond

func (s *simulated) call() error {
	s.calls.Add(1)
	time.Sleep(callTime)
	return s.LossReason()
}

func (s *simulated) Serve(_ context.Context, p load.Plan, _ []string) (map[int]error, error) {
	if s.serving.Add(1) > 1 {
		return nil, errors.New("it serves already")
	}
	return nil, s.call()
}

func (s *simulated) Finish(context.Context, uint64) ([]result.Meter, error) {
	s.serving.Add(-1)
	return nil, s.call()
}

func (s *simulated) Run(_ context.Context, p load.Plan, _ []string) (out []load.SliceResult, _ []result.Meter, _ error) {
	if err := s.call(); err != nil {
		return nil, nil, err
	}
	var from, to int
	if _, err := fmt.Sscanf(strings.ReplaceAll(p.Arms[0].Name, ">", " "), "n%d n%d", &from, &to); err != nil {
		return nil, nil, err
	}
	if err := errors.Join(s.broken(from, to), s.nodes[to].LossReason()); err != nil {
		time.Sleep(5 * time.Second)
		return []load.SliceResult{{Err: err}}, nil, nil
	}
	time.Sleep(time.Duration(len(p.Schedule)) * (p.Head + p.Slice))
	for range p.Schedule {
		s.mu.Lock()
		slower := s.slower(p.Load, from, to) * math.Exp(0.05*s.rng.NormFloat64())
		s.mu.Unlock()
		m := load.SliceResult{Elapsed: p.Slice}
		if p.Load == "tcp_lat" {
			m.Latency = &result.Latency{Replies: 100, RTTMedian: int64(60_000 * slower)}
		} else {
			m.Stream = &result.Stream{RateBytes: int64(100e6 / slower), RateNs: p.Slice.Nanoseconds()}
		}
		out = append(out, m)
	}
	return out, nil, nil
}

func options(t *testing.T, loads ...string) Options {
	t.Helper()
	found, err := FindLoads(loads)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Loads: found, Margin: DefaultMargin, Seed: 7, Say: t.Logf}
}

// A slow node, a pair that is slow in one direction, one between which nothing passes and a node
// that is lost are named, and nothing else is.
func TestMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(16)
		w.slower = func(load string, from, to int) float64 {
			switch {
			case load == "tcp_lat" && (from == 3 || to == 3):
				return 1.4
			case load == "tcp_bw" && from == 9 && to == 5:
				return 2
			}
			return 1
		}
		w.broken = func(from, to int) error {
			if from+to == 3 && from*to == 2 { // 1 and 2
				return errors.New("no answer")
			}
			return nil
		}
		w.lose = map[int]time.Time{12: time.Now().Add(30 * time.Second)}
		began := time.Now()
		s, err := Measure(t.Context(), w.mesh(), options(t, "tcp_lat", "tcp_bw"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := s.Report(DefaultMargin, 7)
		if took := time.Since(began); took > 16*budgetPerNode || r.Passes < 5 {
			t.Errorf("%d passes in %v", r.Passes, took)
		}
		lat, bw := r.Loads[0], r.Loads[1]
		if n := lat.SlowNodes(); len(n) != 1 || n[0].Node != 3 || math.Abs(n[0].Ratio-1.4) > 0.05 || n[0].P > ErrorRate {
			t.Errorf("slow nodes of tcp_lat: %+v", n)
		}
		if p := bw.SlowPairs(); len(p) != 1 || p[0].From != 9 || p[0].To != 5 || math.Abs(p[0].Ratio-2) > 0.15 || math.Abs(p[0].Expected/p[0].Value-p[0].Ratio) > 0.01 {
			t.Errorf("slow pairs of tcp_bw: %+v", p)
		}
		if len(lat.SlowPairs()) > 0 || len(bw.SlowNodes()) > 0 {
			t.Errorf("also slow: %+v, %+v", lat.SlowPairs(), bw.SlowNodes())
		}
		if len(r.Lost) != 1 || r.Lost[0] != (LostNode{"n12", errLost.Error()}) {
			t.Errorf("lost: %+v", r.Lost)
		}
		if len(r.Broken) == 0 || slices.ContainsFunc(r.Broken, func(b BrokenPair) bool {
			return b.Reason != "no answer" || b.From != "n1" && b.From != "n2" || b.To != "n1" && b.To != "n2"
		}) {
			t.Errorf("broken: %+v", r.Broken)
		}
		if *lat.SlowNode <= 1+DefaultMargin || *lat.SlowPair <= 1+DefaultMargin || *lat.Median < 28_000 || *lat.Median > 32_000 {
			t.Errorf("tcp_lat: median %v, would have named nodes from %v on and pairs from %v on", *lat.Median, *lat.SlowNode, *lat.SlowPair)
		}
		for _, p := range lat.Pairs { // either direction stands for the pair
			if p.From > p.To {
				t.Errorf("tcp_lat has a direction: %+v", p)
			}
		}
		if code := r.ExitCode(); code != verr.Findings {
			t.Errorf("exit code %d", code)
		}
	})
}

// A node whose traffic is all dropped is named instead of all its pairs, and costs no other.
func TestMeasureFirewall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(8)
		w.broken = func(from, to int) error {
			if from == 4 || to == 4 {
				return errors.New("no answer")
			}
			return nil
		}
		s, err := Measure(t.Context(), w.mesh(), options(t, "tcp_lat"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := s.Report(DefaultMargin, 7)
		if len(r.Lost) != 1 || r.Lost[0].Name != "n4" || !strings.Contains(r.Lost[0].Reason, "no answer") || len(r.Broken) > 0 {
			t.Errorf("lost %+v, broken %+v", r.Lost, r.Broken)
		}
		if len(r.Loads[0].Pairs) != 21 || r.ExitCode() != verr.Partial {
			t.Errorf("%d pairs, exit code %d", len(r.Loads[0].Pairs), r.ExitCode())
		}
	})
}

// Time and calls of a pass grow as the number of nodes, and a hundred of them take ten minutes.
func TestMeasureGrowth(t *testing.T) {
	plain.SkipShort(t)
	pass := func(nodes, passes int, loads ...string) (took time.Duration, callsPerRound float64, done int) {
		synctest.Test(t, func(t *testing.T) {
			w, o := newWorld(nodes), options(t, loads...)
			o.Passes = passes
			s, err := Measure(t.Context(), w.mesh(), o, nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := (nodes - 1 + nodes%2) * s.Passes; s.Rounds > want || s.Rounds < want-nodes {
				t.Errorf("%d rounds of %d nodes, not %d", s.Rounds, nodes, want)
			}
			took, callsPerRound, done = s.Took, float64(w.calls.Load())/float64(s.Rounds), s.Passes
		})
		return took, callsPerRound, done
	}
	took, _, done := pass(100, DefaultPasses, DefaultLoads...)
	if took > 10*time.Minute || done < 5 {
		t.Errorf("100 nodes took %v for %d passes", took, done)
	}
	more := 300
	if testenv.Long() {
		more = 1000
	}
	few, fewCalls, _ := pass(100, 1, "tcp_lat")
	many, manyCalls, _ := pass(more, 1, "tcp_lat")
	t.Logf("a pass of 100 nodes takes %v and %.0f calls a round, of %d nodes %v and %.0f; %d passes of both loads take %v", few, fewCalls, more, many, manyCalls, done, took)
	if ratio, want := float64(many)/float64(few), float64(more)/100; ratio < 0.95*want || ratio > 1.05*want {
		t.Errorf("%.0f times the nodes take %.1f times the time", want, ratio)
	}
	if fewCalls > 1.5*100 || manyCalls > 1.5*float64(more) {
		t.Errorf("%.0f and %.0f calls a round", fewCalls, manyCalls)
	}
}

// However many rounds there are, no end of traffic has a port at which kubelet or kube-proxy listens
// on its node.
func TestPorts(t *testing.T) {
	o := options(t, "tcp_lat")
	r := &run{Samples: &Samples{Nodes: newWorld(2).mesh()}, rng: rand.New(rand.NewPCG(1, 1))}
	for r.rounds = range 2 * portSpan {
		arm := r.series(o.Loads[0], nodePair{0, 1}).Arms[0]
		if client, server := arm.ClientPort, arm.ServerPort; client >= 10248 && client <= 10259 || client >= 20000 || server < 20000 || server >= 30000 {
			t.Fatalf("in round %d the ports are %d and %d", r.rounds, client, server)
		}
	}
}

// What was measured until an interruption is there.
func TestMeasureInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s, err := Measure(ctx, newWorld(8).mesh(), options(t, "tcp_lat"), nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("ended with %v", err)
		}
		if r := s.Report(DefaultMargin, 7); len(r.Loads[0].Pairs) != 28 || r.Passes < 3 || len(r.Lost)+len(r.Broken) > 0 {
			t.Errorf("%d passes, %d pairs, lost %v, broken %v", r.Passes, len(r.Loads[0].Pairs), r.Lost, r.Broken)
		}
	})
}

// Where all nodes are lost, as when an API server goes away, what was measured until then is there.
func TestMeasureAllLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, cut := newWorld(8), time.Now().Add(5*time.Second)
		w.lose = map[int]time.Time{}
		for i := range w.nodes {
			w.lose[i] = cut
		}
		s, err := Measure(t.Context(), w.mesh(), options(t, "tcp_lat"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := s.Report(DefaultMargin, 7)
		if len(r.Lost) < 7 || len(r.Loads[0].Pairs) != 28 || r.Passes < 3 || r.Passes > 10 || r.ExitCode() != verr.Partial {
			t.Errorf("%d passes, %d pairs, %d lost, exit code %d", r.Passes, len(r.Loads[0].Pairs), len(r.Lost), r.ExitCode())
		}
	})
}

// What cannot be told, or not in time, is refused before anything is measured.
func TestRefuses(t *testing.T) {
	few, many := newWorld(1).mesh(), newWorld(60).mesh()
	short := options(t, "tcp_lat")
	short.Budget = 20 * time.Second
	for _, c := range []struct {
		nodes []Member
		o     Options
		want  string
	}{
		{few, options(t, "tcp_lat"), "a pair takes two"},
		{many, short, "passes take about"},
		{many, options(t, "tcp_crr"), "short enough"},
	} {
		if _, err := Measure(t.Context(), c.nodes, c.o, nil); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ended with %v, not %q", err, c.want)
		}
	}
}
