package figure

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/chart"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// sizeFigures draw the figures of each sweep.
func sizeFigures(_ *result.Record, s *analysis.Summary) []Drawing {
	return eachSweep(s, figuresBySize)
}

// sizeRatioFigures draw their ratios to the baseline.
func sizeRatioFigures(_ *result.Record, s *analysis.Summary) []Drawing {
	return eachSweep(s, func(cells []*analysis.Cell) Drawing { return ratiosBySize(cells, s.Level) })
}

func eachSweep(s *analysis.Summary, draw func([]*analysis.Cell) Drawing) []Drawing {
	var out []Drawing
	for _, cells := range view.ByLoad(s) {
		if view.IsSweep(cells) {
			out = append(out, draw(cells))
		}
	}
	return out
}

func figuresBySize(cells []*analysis.Cell) Drawing {
	first := cells[0]
	text := func(v float64) string { return unit.Value(first.Cell.Metric, v) }
	c := chart.Curves{Dots: true, X: sizeAxis(),
		Y:     chart.Axis{Label: view.FigureHead(first.Cell.Metric) + ", " + direction(first.Cell.Metric), Log: true, Format: text},
		Texts: chart.Texts{Title: sweepName(first) + " by message size", Desc: sentence(view.MetricCaption(first.Cell))}}
	table := sizeTable(cells, func(c *analysis.Cell, r *analysis.Row) string { return text(r.Value) })
	for _, arm := range first.Rows {
		curve := chart.Curve{Name: sanitize.Text(arm.Arm.Name)}
		for _, c := range cells {
			if r := c.Row(arm.Arm.Name); r != nil && finite(r.Value) > 0 {
				curve.Points = append(curve.Points, chart.Point{X: float64(c.Cell.Size), Y: r.Value,
					Title: curve.Name + ", " + unit.MessageSize(c.Cell.Size) + ": " + text(r.Value)})
			}
		}
		c.Curves = append(c.Curves, curve)
	}
	return Drawing{name: "sizes/" + sanitize.Text(first.Cell.Load), Texts: c.Texts, Chart: c, Table: table}
}

func ratiosBySize(cells []*analysis.Cell, level float64) Drawing {
	first := cells[0]
	base := sanitize.Text(first.Baseline)
	c := chart.Curves{Dots: true, X: sizeAxis(), Y: chart.Axis{Label: "ratio to " + base + ", " + direction(first.Cell.Metric), Log: true, Format: plainRatio},
		Texts: chart.Texts{Title: sweepName(first) + ", ratio to " + base, Desc: "The vertical bars are " + unit.ExactPercent(level) + " intervals. If a bar crosses 1, no difference was found."}}
	table := sizeTable(cells, func(c *analysis.Cell, r *analysis.Row) string {
		if r.Ratio == nil {
			return unit.NoFigure
		}
		return view.RatioText(r) + " " + view.Interval(r.Ratio)
	})
	for _, arm := range first.Rows {
		curve := chart.Curve{Name: sanitize.Text(arm.Arm.Name)}
		for _, c := range cells {
			r := c.Row(arm.Arm.Name)
			if r == nil {
				continue
			}
			if r.Arm.Name == c.Baseline {
				curve.Points = append(curve.Points, chart.Point{X: float64(c.Cell.Size), Y: 1, Title: curve.Name})
			} else if p, ok := ratioPoint(c, r); ok {
				curve.Points = append(curve.Points, p)
			}
		}
		c.Curves = append(c.Curves, curve)
	}
	table.DropEmpty()
	return Drawing{name: "size-ratios/" + sanitize.Text(first.Cell.Load), Texts: c.Texts, Chart: c, Table: table}
}

// sentence makes one of a caption.
func sentence(caption string) string {
	first, size := utf8.DecodeRuneInString(caption)
	return string(unicode.ToUpper(first)) + caption[size:] + "."
}

// sweepName is what a sweep is called: its load, without a size.
func sweepName(c *analysis.Cell) string {
	return strings.Replace(view.CellName(c.Cell), " "+unit.MessageSize(c.Cell.Size), "", 1)
}

// sizeTable has a row a size and a column a path.
func sizeTable(cells []*analysis.Cell, text func(*analysis.Cell, *analysis.Row) string) view.Block {
	b := view.Block{Columns: []view.Column{view.Number("size", 0)}}
	for _, r := range cells[0].Rows {
		b.Columns = append(b.Columns, view.Number(sanitize.Text(r.Arm.Name), 0))
	}
	for _, c := range cells {
		line := []string{unit.MessageSize(c.Cell.Size)}
		for _, arm := range cells[0].Rows {
			if r := c.Row(arm.Arm.Name); r != nil {
				line = append(line, text(c, r))
			} else {
				line = append(line, unit.NoFigure)
			}
		}
		b.Rows = append(b.Rows, line)
	}
	return b
}

func ratioPoint(c *analysis.Cell, r *analysis.Row) (chart.Point, bool) {
	if r.Ratio == nil || finite(r.Ratio.Value) == 0 {
		return chart.Point{}, false
	}
	p := chart.Point{X: float64(c.Cell.Size), Y: r.Ratio.Value,
		Title: sanitize.Text(r.Arm.Name) + ", " + unit.MessageSize(c.Cell.Size) + ": " + view.RatioText(r) + " " + view.Interval(r.Ratio) + ", " + view.Verdict(r)}
	if !r.Ratio.Open {
		p.Low, p.High = finite(r.Ratio.Lo), finite(r.Ratio.Hi)
	}
	return p, true
}

func sizeAxis() chart.Axis {
	return chart.Axis{Label: "message size", Log: true, Format: func(v float64) string { return unit.MessageSize(int(v)) }, Ticks: sizeTicks}
}

// sizeTicks are powers of two, which is what message sizes are.
var sizeTicks = func() (ts []chart.Tick) {
	for n := 1; n <= 1<<30; n *= 4 {
		ts = append(ts, chart.Tick{Value: float64(n), Text: unit.MessageSize(n)})
	}
	return ts
}()
