package figure

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/chart"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// mostStretches is into how many stretches of time a run is cut, and mostCells
// how many cells all rows may have together.
const (
	mostStretches = 72
	mostCells     = 720
)

// timeSteps are the distances from the median at which a colour gets stronger.
var timeSteps = []float64{0.05, 0.1, 0.25, 0.5}

// timeFigure shows when the machine was disturbed: for each path, how far its
// slices were from the median of all that it did of the same kind.
func timeFigure(rec *result.Record, s *analysis.Summary) []Drawing {
	rows := slowness(rec)
	if len(rows) == 0 {
		return nil
	}
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, r := range rows {
		for _, p := range r.moments {
			first, last = min(first, p.start), max(last, p.start)
		}
	}
	n := min(mostStretches, max(12, mostCells/len(rows)))
	span := (float64(last) - float64(first)) / 1e9 / float64(n) // seconds
	if !(span > 0) {
		return nil
	}
	c := chart.Heat{Steps: timeSteps, Keys: [2]string{"faster", "slower"}, X: chart.Axis{Label: "time since the start", Format: clock}}
	c.Texts = chart.Texts{Title: "Speed over the run", Desc: "How much slower or faster each path was than its own median. If a column is strongly coloured in every row, something else probably disturbed the machine then."}
	table := view.Block{Columns: []view.Column{view.Label("path"), view.Number("slices", 0), view.Number("beyond ±10 %", 0), view.Label("slowest stretch")}}
	for _, r := range rows {
		name := sanitize.Text(r.arm)
		row, worst := chart.HeatRow{Name: name}, chart.HeatCell{Value: math.Inf(-1)}
		for i, logs := range r.stretches(first, span, n) {
			if len(logs) == 0 {
				continue
			}
			cell := chart.HeatCell{From: float64(i) * span, To: float64(i+1) * span, Value: stats.Median(logs)}
			cell.Title = fmt.Sprintf("%s, %s to %s: time per operation %s of its median", name, clock(cell.From), clock(cell.To), unit.Change(math.Exp(cell.Value)))
			row.Cells = append(row.Cells, cell)
			if cell.Value > worst.Value {
				worst = cell
			}
		}
		c.Rows = append(c.Rows, row)
		table.Rows = append(table.Rows, []string{name, unit.Count(int64(len(r.moments))), unit.Percent(r.shareBeyond(0.1)),
			clock(worst.From) + " to " + clock(worst.To) + ": " + unit.Change(math.Exp(worst.Value))})
	}
	return []Drawing{{name: "time", Texts: c.Texts, Chart: c, Table: table}}
}

// pathTimes is what one path did, over time.
type pathTimes struct {
	arm     string
	moments []moment
}

// moment is one slice: when it was, and the logarithm of the time that it took
// for an operation, against the median of its kind. Above 0 it was slow.
type moment struct {
	start int64 // ns
	slow  float64
}

// slowness sets each slice against the median of the same path and load.
func slowness(rec *result.Record) []pathTimes {
	metrics := map[string]result.Metric{}
	for _, c := range rec.Plan.Cells {
		metrics[c.Name] = c.Metric
	}
	type kind struct{ cell, arm string }
	figures := map[kind][]float64{}
	for i := range rec.Slices {
		s := &rec.Slices[i]
		if v, ok := s.Value(metrics[s.Cell]); ok {
			k := kind{s.Cell, s.Arm}
			figures[k] = append(figures[k], v)
		}
	}
	usual := map[kind]float64{}
	for k, vs := range figures {
		usual[k] = stats.Median(vs)
	}
	var out []pathTimes
	for _, a := range rec.Plan.Arms {
		out = append(out, pathTimes{arm: a.Name})
	}
	for i := range rec.Slices {
		s := &rec.Slices[i]
		at := slices.IndexFunc(out, func(p pathTimes) bool { return p.arm == s.Arm })
		v, ok := s.Value(metrics[s.Cell])
		if at < 0 || !ok {
			continue
		}
		slow := math.Log(v / usual[kind{s.Cell, s.Arm}])
		if !metrics[s.Cell].LowerIsBetter() {
			slow = -slow
		}
		out[at].moments = append(out[at].moments, moment{s.Start, slow})
	}
	return slices.DeleteFunc(out, func(p pathTimes) bool { return len(p.moments) == 0 })
}

// stretches deals the moments out to n stretches of span seconds.
func (p pathTimes) stretches(first int64, span float64, n int) [][]float64 {
	out := make([][]float64, n)
	for _, m := range p.moments {
		at := int((float64(m.start) - float64(first)) / 1e9 / span)
		at = min(max(at, 0), n-1)
		out[at] = append(out[at], m.slow)
	}
	return out
}

// shareBeyond is the share of moments that are further from the median than that.
func (p pathTimes) shareBeyond(share float64) float64 {
	n := 0
	for _, m := range p.moments {
		if math.Abs(m.slow) > math.Log1p(share) {
			n++
		}
	}
	return float64(n) / float64(len(p.moments))
}

// clock prints seconds as a place in a run: "4.2 s", "3:07".
func clock(seconds float64) string {
	s := int(math.Round(seconds))
	if s < 120 {
		return strconv.FormatFloat(math.Round(10*seconds)/10, 'f', -1, 64) + " s"
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
