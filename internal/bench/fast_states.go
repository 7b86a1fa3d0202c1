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

// leastStates is how often states are measured that are to be compared: fewer
// values have no interval.
const leastStates = 6

// states compares one path with itself in several states that cannot be there at
// the same time: each is measured for a moment, in turn, over and over, beside the
// host network. The order changes direction each time, and the machine's drift with
// it.
type states struct {
	names   []string
	enter   func(ctx context.Context, state int) error // returns when the path is in it
	measure func(ctx context.Context, rng *rand.Rand) (moment, error)
}

// moment is what was seen at once, by load: logarithms of figures.
type moment map[string]struct{ path, ratio float64 }

// run measures all states until the budget is used up.
func (s *states) run(ctx context.Context, budget time.Duration, seed uint64) (seen [][]moment, err error) {
	seen = make([][]moment, len(s.names))
	rng, start := rand.New(rand.NewPCG(seed, 5)), time.Now()
	for turn := 0; ; turn++ {
		began := time.Now()
		for i := range s.names {
			if turn%2 == 1 {
				i = len(s.names) - 1 - i
			}
			if err := s.enter(ctx, i); err != nil {
				return nil, fmt.Errorf("make it so: %s: %w", s.names[i], err)
			}
			m, err := s.measure(ctx, rng)
			if err != nil {
				return nil, err
			}
			seen[i] = append(seen[i], m)
		}
		if turn+1 >= leastStates && time.Since(start)+time.Since(began) > budget {
			return seen, nil
		}
	}
}

// byRecord measures a moment as a short comparison.
type byRecord struct {
	bench   *verify.Comparer
	request compare.Request
	path    string
	figure  figureOf
}

// figureOf is what a moment is to tell of the slices of a load.
type figureOf struct {
	slice  func(*result.Slice, result.Metric) (float64, bool)
	rounds func(mine, host []float64) (path, ratio float64) // logarithms, of as many figures
}

// typical is what most rounds were like: what disturbs one is in none of it.
var typical = figureOf{(*result.Slice).Value, func(mine, host []float64) (path, ratio float64) {
	ratios := make([]float64, len(mine))
	for i := range mine {
		ratios[i] = math.Log(mine[i] / host[i])
	}
	return math.Log(stats.Median(mine)), stats.Median(ratios)
}}

func (r *byRecord) measure(ctx context.Context, rng *rand.Rand) (moment, error) {
	r.request.Seed = rng.Uint64()
	rec, err := r.bench.Record(ctx, r.request)
	if err != nil {
		return nil, err
	}
	return r.read(rec)
}

// read takes the rounds in which both the path and the host network have a figure.
func (r *byRecord) read(rec *result.Record) (moment, error) {
	m := moment{}
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

// overHost is the ratio to the host network in one state.
func overHost(seen []moment, load string) *stats.Ratio {
	var logs []float64
	for _, m := range seen {
		logs = append(logs, m[load].ratio)
	}
	return ratioOf(logs)
}

// between is the ratio of the path in one state to itself in another, in the same
// turns. With host, what became of the host network meanwhile is taken out.
func between(a, b []moment, load string, host bool) *stats.Ratio {
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
