package report

import (
	"math"
	"strconv"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/chart"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// ratioMarks say what the marks of ratios mean, in the order of the legend.
var ratioMarks = []chart.Key{
	{Mark: chart.Better, Name: "faster"},
	{Mark: chart.Worse, Name: "slower"},
	{Mark: chart.Same, Name: "same"},
	{Mark: chart.Open, Name: "no verdict"},
}

// ratioFigure is the interval plot of all ratios. Sweeps are left to
// [sizeFigures]: a row a size would hide the rest.
func ratioFigure(rec *result.Record, s *analysis.Summary) []drawing {
	base := baseline(&rec.Plan)
	c := chart.Intervals{Axis: chart.Axis{Label: "ratio to " + base + " in the same rounds", Format: plainRatio}}
	table := block{columns: []column{{"load", true, 0}, {"path", true, 0}, {"figure", false, 0}, {"vs " + base, false, 0},
		{setting(s.Level) + " interval", false, 0}, {"verdict", true, 0}}}
	seen := map[chart.Mark]bool{}
	for _, cells := range byLoad(s) {
		if isSweep(cells) {
			continue
		}
		for _, cell := range cells {
			g := chart.Group{Name: cellName(cell.Cell) + ": " + direction(cell.Cell.Metric)}
			if f := cell.Floor; f != nil && !f.Invalid && !f.Ratio.Open {
				g.Low, g.High = 1/(1+f.Size), 1+f.Size
				g.Band = floorText(cell)
			}
			for i := range cell.Rows {
				r := &cell.Rows[i]
				table.rows = append(table.rows, []string{cellName(cell.Cell), sanitize.Text(r.Arm.Name), value(cell.Cell.Metric, r.Value),
					ratioText(r), interval(r.Ratio), verdict(r)})
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
	}
	if len(c.Groups) == 0 {
		return nil
	}
	for _, k := range ratioMarks {
		if seen[k.Mark] {
			c.Keys = append(c.Keys, k)
		}
	}
	c.Texts = chart.Texts{Title: "Every path to " + base,
		Desc: "Each line is the " + setting(s.Level) + " interval of a ratio. If the interval contains 1, no difference was found. The grey band is the noise floor: how far apart two identical paths can appear."}
	return []drawing{{name: "ratios", texts: c.Texts, chart: c, table: table}}
}

func ratioRow(c *analysis.Cell, r *analysis.Row) chart.Row {
	name := sanitize.Text(r.Arm.Name)
	row := chart.Row{Name: name, Mark: mark(r), Text: verdict(r), Title: name + ", " + cellName(c.Cell) + ": " + verdict(r)}
	if r.Ratio == nil {
		return row
	}
	row.Value = finite(r.Ratio.Value)
	row.Title = name + ", " + cellName(c.Cell) + ": " + ratioText(r) + " " + interval(r.Ratio) + ", " + verdict(r)
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
		return chart.Same
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
