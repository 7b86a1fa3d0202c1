package figure

import (
	"iter"
	"math"
	"slices"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/chart"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// loadLatencyFigures draw round trips by how much of its own maximum each path carries
// beside them: the median, and the percentiles that users notice. The furthest is drawn where a
// point of the curve has enough samples for it.
func loadLatencyFigures(_ *result.Record, s *analysis.Summary) []Drawing {
	var out []Drawing
	for _, name := range curveNames(s) {
		points := curveCells(s, name)
		out = append(out,
			loadLatency(points, name, "p50", "median round trip", 0.5),
			loadLatency(points, name, "p99", "99th percentile of round trips", 0.99))
		if hasPercentile(points, 0.999) {
			out = append(out, loadLatency(points, name, "p99.9", "99.9th percentile of round trips", 0.999))
		}
	}
	return out
}

// curveNames are the curves of a record that have two points or more, in order.
func curveNames(s *analysis.Summary) (names []string) {
	for _, c := range s.Cells {
		if name := c.Cell.Curve; name != "" && !slices.Contains(names, name) && len(curveCells(s, name)) > 1 {
			names = append(names, name)
		}
	}
	return names
}

// curveCells are the points of a curve by their load.
func curveCells(s *analysis.Summary, name string) (cells []*analysis.Cell) {
	for i := range s.Cells {
		if s.Cells[i].Cell.Curve == name {
			cells = append(cells, &s.Cells[i])
		}
	}
	view.SortByLoadShare(cells)
	return cells
}

// isCurvePoint tells whether the cell is a point of a curve under load.
func isCurvePoint(c *analysis.Cell) bool { return c.Cell.Curve != "" && view.LoadShare(c) > 0 }

// singleCells are the cells, load by load, that are in no sweep of sizes and on no curve: each of
// those has a figure of its own.
func singleCells(s *analysis.Summary) iter.Seq[*analysis.Cell] {
	return func(yield func(*analysis.Cell) bool) {
		for _, cells := range view.ByLoad(s) {
			if view.IsSweep(cells) {
				continue
			}
			for _, cell := range cells {
				if !isCurvePoint(cell) && !yield(cell) {
					return
				}
			}
		}
	}
}

func loadLatency(points []*analysis.Cell, curve, short, what string, q float64) Drawing {
	first := points[0]
	c := chart.Curves{Dots: true,
		X:     chart.Axis{Label: "load, as a share of the path's own maximum", Format: func(v float64) string { return unit.ExactPercent(math.Abs(v)) }},
		Y:     chart.Axis{Label: what, Log: true, Format: unit.Duration},
		Texts: chart.Texts{Title: "Latency under load, " + short + ": " + sanitize.Text(curve), Desc: "The " + what + " while a stream carries a share of the most that the path can carry. Lower is better."}}
	table := view.Block{Columns: []view.Column{view.Number("load", 0)}}
	for _, r := range first.Rows {
		table.Columns = append(table.Columns, view.Number(sanitize.Text(r.Arm.Name), 0))
		c.Curves = append(c.Curves, chart.Curve{Name: sanitize.Text(r.Arm.Name)})
	}
	for _, cell := range points {
		line := []string{unit.ExactPercent(view.LoadShare(cell))}
		for i, arm := range first.Rows {
			text, drawn := unit.NoFigure, &c.Curves[i]
			if v := percentileOf(cell.Row(arm.Arm.Name), q); v > 0 {
				text = unit.Duration(v)
				drawn.Points = append(drawn.Points, chart.Point{X: view.LoadShare(cell), Y: v, Title: drawn.Name + ", " + line[0] + ": " + text})
			}
			line = append(line, text)
		}
		table.Rows = append(table.Rows, line)
	}
	return Drawing{name: "load-latency/" + sanitize.Text(curve) + "/" + short, Texts: c.Texts, Chart: c, Table: table}
}

// hasPercentile tells whether a point of a curve has enough samples for a percentile.
func hasPercentile(points []*analysis.Cell, q float64) bool {
	return slices.ContainsFunc(points, func(c *analysis.Cell) bool {
		return slices.ContainsFunc(c.Rows, func(r analysis.Row) bool { return percentileOf(&r, q) > 0 })
	})
}

// percentileOf is a percentile of a row's round trips, ns; 0: there is none.
func percentileOf(r *analysis.Row, q float64) float64 {
	if r == nil || r.Latency == nil {
		return 0
	}
	for _, p := range r.Latency.Percentiles {
		if p.Q == q {
			return finite(p.Value)
		}
	}
	return 0
}
