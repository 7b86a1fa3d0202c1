package figure

import (
	"math"
	"strconv"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/chart"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// ratioMarks say what the marks of ratios mean, in the order of the legend.
var ratioMarks = []chart.Key{
	{Mark: chart.Better, Name: "faster"},
	{Mark: chart.Worse, Name: "slower"},
	{Mark: chart.Equal, Name: "same"},
	{Mark: chart.Open, Name: "no verdict"},
}

// ratioFigure is the interval plot of all ratios. Sweeps are left to
// [sizeFigures] and points of a curve to [loadLatencyFigures]: a row a size would hide the rest.
func ratioFigure(rec *result.Record, s *analysis.Summary) []Drawing {
	base := view.Baseline(&rec.Plan)
	c := chart.Intervals{Axis: chart.Axis{Label: "ratio to " + base + " in the same rounds", Format: plainRatio}}
	table := view.Block{Columns: []view.Column{view.Label("load"), view.Label("path"), view.Number("figure", 0), view.Number("vs "+base, 0),
		view.Number(unit.ExactPercent(s.Level)+" interval", 0), view.Label("verdict")}}
	seen := map[chart.Mark]bool{}
	for cell := range singleCells(s) {
		g := chart.Group{Name: view.CellName(cell.Cell) + ": " + direction(cell.Cell.Metric)}
		if f := cell.Floor; f != nil && !f.Invalid && !f.Ratio.Open {
			g.Low, g.High = 1/(1+f.Size), 1+f.Size
			g.Band = view.FloorText(cell)
		}
		for i := range cell.Rows {
			r := &cell.Rows[i]
			table.Rows = append(table.Rows, []string{view.CellName(cell.Cell), sanitize.Text(r.Arm.Name), unit.Value(cell.Cell.Metric, r.Value),
				view.RatioText(r), view.Interval(r.Ratio), view.Verdict(r)})
			if r.Arm.Name == cell.Baseline {
				continue
			}
			row := ratioRow(cell, r)
			seen[row.Mark] = true
			g.Rows = append(g.Rows, row)
		}
		if len(g.Rows) > 0 {
			c.Groups = append(c.Groups, g)
		}
	}
	if len(c.Groups) == 0 {
		return nil
	}
	for _, k := range ratioMarks {
		if seen[k.Mark] {
			c.Keys = append(c.Keys, k)
		}
	}
	c.Texts = chart.Texts{Title: "Every path compared with " + base,
		Desc: "Each line is the " + unit.ExactPercent(s.Level) + " interval of a ratio. If it contains 1, no difference was found. The grey band is the noise floor: how far apart two identical paths can appear here."}
	return []Drawing{{name: "ratios", Texts: c.Texts, Chart: c, Table: table}}
}

func ratioRow(c *analysis.Cell, r *analysis.Row) chart.Row {
	name := sanitize.Text(r.Arm.Name)
	row := chart.Row{Name: name, Mark: mark(r), Text: view.Verdict(r), Title: name + ", " + view.CellName(c.Cell) + ": " + view.Verdict(r)}
	if r.Ratio == nil {
		return row
	}
	row.Value = finite(r.Ratio.Value)
	row.Title = name + ", " + view.CellName(c.Cell) + ": " + view.RatioText(r) + " " + view.Interval(r.Ratio) + ", " + view.Verdict(r)
	if !r.Ratio.Open {
		row.Low, row.High = finite(r.Ratio.Lo), finite(r.Ratio.Hi)
	}
	return row
}

func mark(r *analysis.Row) chart.Mark {
	if r.Judged == nil {
		return chart.Open
	}
	switch r.Judged.Verdict {
	case stats.Faster:
		return chart.Better
	case stats.Slower:
		return chart.Worse
	case stats.Equivalent:
		return chart.Equal
	}
	return chart.Open
}

// direction says which way a metric points.
func direction(m result.Metric) string {
	if m.LowerIsBetter() {
		return "lower is better"
	}
	return "higher is better"
}

// plainRatio prints a round ratio.
func plainRatio(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// finite makes 0 of what cannot be drawn.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0
	}
	return v
}
