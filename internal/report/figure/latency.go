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

// shares are where a distribution is marked: its nines.
var shares = []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999}

const (
	// perNine is how many points a curve has for each nine, and mostNines where
	// it ends at the latest.
	perNine   = 16
	mostNines = 7
)

// latencyFigures draw the distribution of each load of requests: latency by
// percentile, both axes logarithmic, so that the tail has room.
func latencyFigures(rec *result.Record, s *analysis.Summary) []Drawing {
	var out []Drawing
	for _, cells := range view.ByLoad(s) {
		if view.IsSweep(cells) {
			continue
		}
		for _, c := range cells {
			if d, ok := latencyFigure(c); ok {
				out = append(out, d)
			}
		}
	}
	return out
}

func latencyFigure(c *analysis.Cell) (Drawing, bool) {
	what := "round-trip time"
	if c.Cell.Metric == result.Connections {
		what = "time from connect to close"
	}
	fig := chart.Curves{
		X:     chart.Axis{Label: "percentile of the replies"},
		Y:     chart.Axis{Label: what, Log: true, Format: unit.Duration},
		Texts: chart.Texts{Title: view.CellName(c.Cell) + ": " + what, Desc: "The slowest replies are on the right: one reply in a hundred takes longer than p99. Lower is better."},
	}
	for _, q := range shares {
		fig.X.Ticks = append(fig.X.Ticks, chart.Tick{Value: nines(q), Text: percentileName(q)})
	}
	table := view.Block{Columns: []view.Column{view.Label("path"), view.Number("replies", 0)}}
	for _, q := range shares[1:] {
		table.Columns = append(table.Columns, view.Number(percentileName(q), 0))
	}
	for _, r := range c.Rows {
		if r.Latency == nil {
			continue
		}
		h, name := r.Latency.Histogram(), sanitize.Text(r.Arm.Name)
		if len(h) == 0 {
			continue
		}
		line := []string{name, unit.Count(h.Total())}
		for _, q := range shares[1:] {
			if h.Total() < stats.MinSamples(q) {
				line = append(line, unit.NoFigure)
				continue
			}
			line = append(line, unit.Duration(h.Quantile(q)))
		}
		table.Rows = append(table.Rows, line)
		fig.Curves = append(fig.Curves, chart.Curve{Name: name, Points: distribution(h)})
	}
	table.DropEmpty()
	return Drawing{name: "latency/" + sanitize.Text(c.Cell.Name), Texts: fig.Texts, Chart: fig, Table: table}, len(fig.Curves) > 0
}

// nines is where a share stands on an axis that gives each nine the same room.
func nines(q float64) float64 { return -math.Log10(1 - q) }

func percentileName(q float64) string {
	if q == 0 {
		return "min"
	}
	return "p" + strconv.FormatFloat(100*q, 'g', 7, 64)
}

// distribution reads points off a histogram, up to the last of which ten values
// are beyond.
func distribution(h stats.Histogram) []chart.Point {
	total := h.Total()
	var out []chart.Point
	for i := range perNine * mostNines {
		q := 1 - math.Pow(10, -float64(i)/perNine)
		if i > 0 && total < stats.MinSamples(q) {
			break
		}
		out = append(out, chart.Point{X: nines(q), Y: h.Quantile(q)})
	}
	return out
}
