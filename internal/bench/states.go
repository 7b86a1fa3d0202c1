package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verify"
	"github.com/venturi-net/venturi/result"
)

// minStates is how many samples of each state are taken at least: fewer have no interval.
const minStates = 6

// states compares one path with itself in several states that exclude each other. Each
// state is sampled in turn, over and over, beside the host network. The order is reversed
// each time, so that drift of the machine cancels out.
type states struct {
	names   []string
	enter   func(ctx context.Context, state int) error // returns when the path is in it
	measure func(ctx context.Context, rng *rand.Rand) (sample, error)
}

// sample holds what was measured at one time, by load: logarithms of figures.
type sample map[string]struct{ path, ratio float64 }

// run measures all states until the budget is used up.
func (s *states) run(ctx context.Context, budget time.Duration, seed uint64) (seen [][]sample, err error) {
	seen = make([][]sample, len(s.names))
	rng, start := rand.New(rand.NewPCG(seed, 5)), time.Now()
	for turn := 0; ; turn++ {
		began := time.Now()
		for i := range s.names {
			if turn%2 == 1 {
				i = len(s.names) - 1 - i
			}
			if err := s.enter(ctx, i); err != nil {
				return nil, fmt.Errorf("enter the state %s: %w", s.names[i], err)
			}
			m, err := s.measure(ctx, rng)
			if err != nil {
				return nil, err
			}
			seen[i] = append(seen[i], m)
		}
		if turn+1 >= minStates && time.Since(start)+time.Since(began) > budget {
			return seen, nil
		}
	}
}

// comparisonSampler takes a sample by a short comparison.
type comparisonSampler struct {
	comparer *verify.Comparer
	request  compare.Request
	path     string
	figure   figureOf
}

// figureOf is what a moment is to tell of the slices of a load.
type figureOf struct {
	slice  func(*result.Slice, result.Metric) (float64, bool)
	rounds func(mine, host []float64) (path, ratio float64) // logarithms, of as many figures
}

// medianFigure is the median of all rounds: a disturbance of one round does not affect
// it.
var medianFigure = figureOf{(*result.Slice).Value, func(mine, host []float64) (path, ratio float64) {
	ratios := make([]float64, len(mine))
	for i := range mine {
		ratios[i] = math.Log(mine[i] / host[i])
	}
	return math.Log(stats.Median(mine)), stats.Median(ratios)
}}

func (r *comparisonSampler) measure(ctx context.Context, rng *rand.Rand) (sample, error) {
	r.request.Seed = rng.Uint64()
	rec, err := r.comparer.Record(ctx, r.request)
	if err != nil {
		return nil, err
	}
	return r.read(rec)
}

// read takes the rounds in which both the path and the host network have a figure.
func (r *comparisonSampler) read(rec *result.Record) (sample, error) {
	m := sample{}
	for _, cell := range rec.Plan.Cells {
		by := map[int]map[string]float64{} // round, path
		for i := range rec.Slices {
			of := &rec.Slices[i]
			if v, ok := r.figure.slice(of, cell.Metric); ok && of.Cell == cell.Name {
				if by[of.Round] == nil {
					by[of.Round] = map[string]float64{}
				}
				by[of.Round][of.Arm] = v
			}
		}
		var path, host []float64
		for _, round := range by {
			mine, ok := round[r.path]
			theirs, too := round[rec.Plan.Arms[0].Name]
			if ok && too {
				path, host = append(path, mine), append(host, theirs)
			}
		}
		if len(path) == 0 {
			return nil, fmt.Errorf("measure %s on %s: no round of it has a figure", cell.Name, r.path)
		}
		figure, ratio := r.figure.rounds(path, host)
		m[cell.Load] = struct{ path, ratio float64 }{figure, ratio}
	}
	return m, nil
}

// ratioToHost is the ratio to the host network in one state.
func ratioToHost(seen []sample, load string) *stats.Ratio {
	var logs []float64
	for _, m := range seen {
		logs = append(logs, m[load].ratio)
	}
	return ratioOf(logs)
}

// ratioBetween is the ratio of the path in one state to the path in another, in the same
// rounds. With host, the change of the host network in between is taken out.
func ratioBetween(a, b []sample, load string, host bool) *stats.Ratio {
	var logs []float64
	for i := range min(len(a), len(b)) {
		if host {
			logs = append(logs, a[i][load].ratio-b[i][load].ratio)
		} else {
			logs = append(logs, a[i][load].path-b[i][load].path)
		}
	}
	return ratioOf(logs)
}

// ratioOf estimates a ratio from its logarithms; nil: there are none.
func ratioOf(logs []float64) *stats.Ratio {
	r, ok := stats.FromPairs(logs, stats.Design{Confidence: 0.95})
	if !ok {
		return nil
	}
	return &r
}
