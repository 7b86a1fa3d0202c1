package layout

import (
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/stats"
)

// Runs is what a write-up would have said of three runs: their figures and the
// average; of two paths the quotient of averages. It is shown beside the ratio of
// interleaved rounds, which it must not be taken for.
type Runs struct {
	Values   []float64 `json:"each,omitempty"` // in the unit of the entry
	Average  float64   `json:"average,omitempty"`
	Quotient float64   `json:"quotient,omitempty"` // of this path's average and that of the other

	unit string
}

// runs is how many series stand for as many runs.
const runs = 3

// runs fills in an entry of runs: each of the first series is one, its figure the
// median of its rounds.
func (s *source) runs(e *entry) {
	own := s.runsOf(e.Path, e)
	if e.Baseline == "" {
		e.Runs.Values, e.Runs.Average, e.measured = own, average(own), len(own) == runs
		return
	}
	other := s.runsOf(e.Baseline, e)
	if e.measured = len(own) == runs && len(other) == runs && average(other) > 0; e.measured {
		e.Runs.Quotient = average(own) / average(other)
	}
}

// runsOf gives the figures of an arm's first series, as far as each has one.
func (s *source) runsOf(arm string, e *entry) (each []float64) {
	c, _ := s.row(s.host, arm, e)
	if c == nil {
		return nil
	}
	for series := range runs {
		if v := s.seriesMedian(c, arm, series); v > 0 {
			if v, ok := inUnit(c.Cell, v, e.Runs.unit); ok {
				each = append(each, v)
			}
		}
	}
	return each
}

func (s *source) seriesMedian(c *analysis.Cell, arm string, series int) float64 {
	var all []float64
	for i := range s.rec.Slices {
		slice := &s.rec.Slices[i]
		if slice.Cell != c.Cell.Name || slice.Arm != arm || slice.Series != series {
			continue
		}
		if v, ok := slice.Value(c.Cell.Metric); ok {
			all = append(all, v)
		}
	}
	return stats.Median(all)
}

func average(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(max(1, len(x)))
}

// text is "185, 179, 204: 189", or the quotient without a mark: three runs prove
// nothing.
func (r *Runs) text() string {
	if r.Quotient > 0 {
		return unit.Sig3(r.Quotient)
	}
	var each []string
	for _, v := range r.Values {
		each = append(each, unit.Sig3(v))
	}
	return strings.Join(each, ", ") + ": " + unit.Sig3(r.Average)
}
