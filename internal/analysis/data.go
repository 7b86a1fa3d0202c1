package analysis

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

type key struct{ cell, arm string }

// armData is what a record holds of one arm in one cell.
type armData struct {
	slices []*result.Slice // by series, then round
	meters []*result.Meter
	// sharedCores: machines read the same counters of CPUs, as [result.Plan.SharedCores] says.
	sharedCores bool
}

// index sorts the lines of a record by cell and arm. A slice that is there
// twice counts once.
func index(rec *result.Record) map[key]*armData {
	out := map[key]*armData{}
	at := func(cell, arm string) *armData {
		k := key{cell, arm}
		if out[k] == nil {
			out[k] = &armData{sharedCores: rec.Plan.SharedCores}
		}
		return out[k]
	}
	for i := range rec.Slices {
		s := &rec.Slices[i]
		d := at(s.Cell, s.Arm)
		d.slices = append(d.slices, s)
	}
	for i := range rec.Meters {
		m := &rec.Meters[i]
		d := at(m.Cell, m.Arm)
		d.meters = append(d.meters, m)
	}
	for _, d := range out {
		slices.SortStableFunc(d.slices, bySeries)
		d.slices = slices.CompactFunc(d.slices, func(a, b *result.Slice) bool { return bySeries(a, b) == 0 })
	}
	return out
}

func bySeries(a, b *result.Slice) int {
	return cmp.Or(cmp.Compare(a.Series, b.Series), cmp.Compare(a.Round, b.Round))
}

// eachSeries calls f for every series of the arm with its slices.
func (d *armData) eachSeries(f func(series int, s []*result.Slice)) {
	for rest := d.slices; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Series == rest[0].Series {
			n++
		}
		f(rest[0].Series, rest[:n])
		rest = rest[n:]
	}
}

// values gives the figures by series.
func (d *armData) values(m result.Metric) [][]float64 {
	return d.rates(valueOf(m))
}

// figure reads one figure of a slice; false when it has none.
type figure func(*result.Slice) (float64, bool)

func valueOf(m result.Metric) figure {
	return func(s *result.Slice) (float64, bool) { return s.Value(m) }
}

// rates gives any figure of a slice by series; series that are too short to
// stand beside the others are left out.
func (d *armData) rates(f figure) [][]float64 {
	var out [][]float64
	d.eachSeries(func(_ int, of []*result.Slice) {
		var vs []float64
		for _, s := range of {
			if v, ok := f(s); ok {
				vs = append(vs, v)
			}
		}
		out = append(out, vs)
	})
	return longEnough(out)
}

// pair gives the log-ratios of d to base, by series, over the rounds in which
// both have a figure.
func pair(d, base *armData, f figure) [][]float64 {
	var out [][]float64
	var logs []float64
	series := -1
	b := base.slices
	for _, s := range d.slices {
		if s.Series != series {
			out, logs, series = append(out, logs), nil, s.Series
		}
		for len(b) > 0 && bySeries(b[0], s) < 0 {
			b = b[1:]
		}
		if len(b) == 0 || bySeries(b[0], s) != 0 {
			continue
		}
		v, ok := f(s)
		w, okBase := f(b[0])
		if ok && okBase {
			logs = append(logs, math.Log(v)-math.Log(w))
		}
	}
	return longEnough(append(out, logs))
}

// longEnough drops series that have less than half of the rounds of the
// fullest: the median of a few rounds of an interrupted series would count as
// much as that of a whole one.
func longEnough(series [][]float64) [][]float64 {
	most := 0
	for _, s := range series {
		most = max(most, len(s))
	}
	return slices.DeleteFunc(series, func(s []float64) bool { return len(s) == 0 || 2*len(s) < most })
}

func medianOfMedians(series [][]float64) float64 {
	var ms []float64
	for _, s := range series {
		ms = append(ms, stats.Median(s))
	}
	return stats.Median(ms)
}

// toolArm tells an arm that is another tool beside ours: it is named after the
// tool and the arm whose path it uses ("qperf:host").
func toolArm(a result.Arm) (tool, of string, ok bool) {
	tool, of, ok = strings.Cut(a.Name, ":")
	return tool, of, ok && tool == a.Path
}

// agree adds the comparison of our figure with a tool's. The tool's slices are
// long and few, so every pair is a unit of its own.
func (c *Cell) agree(tool, of string, ours, theirs *armData, d stats.Design) {
	f := valueOf(c.Cell.Metric)
	if c.Cell.Metric == result.OneWay {
		f = (*result.Slice).Mean // that is what the tools report
	}
	var logs []float64
	for _, s := range pair(ours, theirs, f) {
		logs = append(logs, s...)
	}
	r, ok := stats.FromPairs(logs, stats.Design{Confidence: d.Confidence})
	if !ok {
		return
	}
	a := Agreement{
		Tool: tool, Arm: of, Ratio: r,
		Venturi: medianOfMedians(ours.rates(f)), External: medianOfMedians(theirs.rates(f)),
	}
	per := perUnit(c.Cell)
	cpu := logRatios(ours.costs(per, 1), theirs.costs(per, 1))
	if ratio, ok := stats.FromPairs(cpu, stats.Design{Confidence: d.Confidence}); ok {
		a.CPU = &ratio
	}
	c.Agreement = append(c.Agreement, a)
}
