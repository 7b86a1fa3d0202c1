package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// byCurve splits cells of one load: those of each curve together, in the order of their
// shares, and the others one by one where they are.
func byCurve(cells []*analysis.Cell) [][]*analysis.Cell {
	var out [][]*analysis.Cell
	for _, c := range cells {
		at := -1
		if c.Cell.Curve != "" {
			at = slices.IndexFunc(out, func(g []*analysis.Cell) bool { return g[0].Cell.Curve == c.Cell.Curve })
		}
		if at < 0 {
			out = append(out, []*analysis.Cell{c})
			continue
		}
		out[at] = append(out[at], c)
	}
	for _, curve := range out {
		SortByLoadShare(curve)
	}
	return out
}

// SortByLoadShare brings the points of a curve into their order.
func SortByLoadShare(points []*analysis.Cell) {
	slices.SortStableFunc(points, func(a, b *analysis.Cell) int { return cmp.Compare(LoadShare(a), LoadShare(b)) })
}

// LoadShare is where on its curve a cell is: what part of its maximum each path carries
// beside the load.
func LoadShare(c *analysis.Cell) float64 {
	if b := c.Cell.Background; b != nil {
		return b.Share
	}
	return 0
}

// curveBlock shows latency against load: path by path a line for each point.
func curveBlock(points []*analysis.Cell, rec *result.Record, s *analysis.Summary, n *notes) Block {
	first, last := points[0], points[len(points)-1]
	b := Block{Name: CellName(first.Cell), Caption: "round trip against load"}
	if bg := last.Cell.Background; bg != nil {
		alone, whole := first.Cell, *bg
		alone.Background, whole.Share = nil, 0
		b.Name = CellName(alone) + " beside " + backgroundName(&whole)
		b.Caption = "round trip, while the path carries a share of its own maximum"
	}
	b.Columns = []Column{Label("path"), Number("load", 0), Number("carried", 2), Number("p50", 0), Number("p99", 0), Number("p99.9", 0),
		Number("vs "+sanitize.Text(first.Baseline), 1), Label("verdict")}
	for i := range first.Rows {
		arm := first.Rows[i].Arm.Name
		for _, c := range points {
			at := slices.IndexFunc(c.Rows, func(r analysis.Row) bool { return r.Arm.Name == arm })
			if at < 0 {
				continue
			}
			r := &c.Rows[at]
			carried := unit.NoFigure
			if c.Cell.Background != nil {
				carried = backgroundRate(c.Cell.Background, r)
			}
			b.Rows = append(b.Rows, []string{sanitize.Text(arm), unit.ExactPercent(LoadShare(c)), carried,
				percentile(r, 0.5), percentile(r, 0.99), percentile(r, 0.999), RatioText(r),
				strings.TrimSpace(Verdict(r) + n.Marks(rowNotes(r, c, rec, s)))})
		}
	}
	return b
}
