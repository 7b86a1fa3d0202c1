package view

import (
	"fmt"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// SweepFrom is how many sizes of one load make one table with a line a size,
// in place of a table a size. The CSV and JSON always have every figure.
const SweepFrom = 4

// blocks lays out all cells.
func blocks(rec *result.Record, s *analysis.Summary, n *notes) []Block {
	var out []Block
	for _, group := range ByLoad(s) {
		if IsSweep(group) {
			out = append(out, sweepBlock(group, rec, s, n))
			continue
		}
		for _, cells := range byCurve(group) {
			if len(cells) > 1 {
				out = append(out, curveBlock(cells, rec, s, n))
				continue
			}
			out = append(out, cellBlock(cells[0], rec, s, n))
		}
	}
	return out
}

// IsSweep: the cells are one load at many sizes.
func IsSweep(cells []*analysis.Cell) bool { return len(cells) >= SweepFrom && sameWay(cells) }

// sameWay: the cells differ in size only, so one line each can tell them apart.
func sameWay(cells []*analysis.Cell) bool {
	first := &cells[0].Cell
	for _, cell := range cells {
		c := &cell.Cell
		if c.Flows != first.Flows || c.Threads != first.Threads || c.Batch != first.Batch || c.Rate != first.Rate || c.Response != first.Response || c.Background != nil {
			return false
		}
	}
	return true
}

// sweepBlock has a line for each size, and the geometric mean of the ratios
// below.
func sweepBlock(group []*analysis.Cell, rec *result.Record, s *analysis.Summary, n *notes) Block {
	first := group[0]
	b := Block{Name: strings.Replace(CellName(first.Cell), unit.MessageSize(first.Cell.Size), "by size", 1), Caption: MetricCaption(first.Cell)}
	b.Columns = []Column{{"size", false, 0}, {"noise", false, 2}, {sanitize.Text(first.Baseline), false, 1}}
	for _, r := range first.Rows {
		if r.Arm.Role == "" {
			b.Columns = append(b.Columns, Column{sanitize.Text(r.Arm.Name), false, 3}, Column{"vs " + sanitize.Text(first.Baseline), false, 0},
				Column{"verdict", true, 0}, Column{"CPU", false, 4})
		}
	}
	for _, r := range first.Rows {
		b.Columns = append(b.Columns, Column{"CPU time in, " + sanitize.Text(r.Arm.Name), true, RankMarkdownOnly}, Column{"cores busy, " + sanitize.Text(r.Arm.Name), true, RankMarkdownOnly})
	}
	ratios := make([][]float64, len(first.Rows))
	for _, c := range group {
		line := []string{unit.MessageSize(c.Cell.Size), shortFloor(c), unit.NoFigure}
		for i := range c.Rows {
			r := &c.Rows[i]
			if r.Arm.Role == result.RoleBaseline {
				line[2] = unit.Value(c.Cell.Metric, r.Value) + n.Marks(sweepNotes(r, c, rec, s))
				continue
			}
			text := ""
			if r.Ratio != nil {
				text = plusMinus(*r.Ratio)
			}
			if r.Ratio != nil && !r.Foreign() {
				ratios[i] = append(ratios[i], r.Ratio.Value)
			}
			line = append(line, unit.Value(c.Cell.Metric, r.Value), text,
				shortVerdict(r)+n.Marks(sweepNotes(r, c, rec, s)), cpuRatio(r))
		}
		for _, r := range c.Rows {
			line = append(line, ClassText(r.CPU), CoreText(r.CPU))
		}
		b.Rows = append(b.Rows, line)
	}
	last := []string{"geo mean", "", ""}
	for i, r := range first.Rows {
		if r.Arm.Role == "" {
			mean := ""
			if len(ratios[i]) > 0 {
				mean = unit.Ratio(stats.GeoMean(ratios[i]))
			}
			if n := len(ratios[i]); n > 0 && n < len(group) { // else it would pass for one of all sizes
				mean += fmt.Sprintf(" (%d of %d)", n, len(group))
			}
			last = append(last, "", mean, "", "")
		}
	}
	b.Rows = append(b.Rows, append(last, make([]string, 2*len(first.Rows))...))
	for _, c := range group {
		if t := trouble(c); t != "" {
			b.Footer = strings.TrimPrefix(b.Footer+fmt.Sprintf("; %s %s", unit.MessageSize(c.Cell.Size), t), "; ")
		}
	}
	return b
}

func shortFloor(c *analysis.Cell) string {
	switch f := c.Floor; {
	case f == nil || f.Ratio.Open:
		return unit.NoFigure
	case f.Invalid:
		return "TOO NOISY"
	default:
		return "±" + unit.Percent(f.Size)
	}
}

// shortVerdict leaves the size of the difference to the column before it.
func shortVerdict(r *analysis.Row) string {
	if r.Judged != nil && (r.Judged.Verdict == stats.Faster || r.Judged.Verdict == stats.Slower) {
		return differs(r)
	}
	return Verdict(r)
}

func cpuRatio(r *analysis.Row) string {
	if r.CPU == nil || r.CPU.Ratio == nil {
		return ""
	}
	if r.Foreign() {
		return unit.NoFigure // an emulated CPU's work is not a real one's
	}
	return "x " + unit.Ratio(r.CPU.Ratio.Value)
}
