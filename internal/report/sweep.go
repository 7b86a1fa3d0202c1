package report

import (
	"fmt"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// sweepFrom is how many sizes of one load make one table with a line a size,
// in place of a table a size. The CSV and JSON always have every figure.
const sweepFrom = 4

// blocks lays out all cells.
func blocks(rec *result.Record, s *analysis.Summary, n *notes) []block {
	var out []block
	for _, group := range byLoad(s) {
		if len(group) >= sweepFrom && sameWay(group) {
			out = append(out, sweepBlock(group, rec, s, n))
			continue
		}
		for _, c := range group {
			out = append(out, cellBlock(c, rec, s, n))
		}
	}
	return out
}

// sameWay: the cells differ in size only, so one line each can tell them apart.
func sameWay(cells []*analysis.Cell) bool {
	for _, c := range cells {
		if c.Cell.Flows != cells[0].Cell.Flows || c.Cell.Batch != cells[0].Cell.Batch || c.Cell.Rate != cells[0].Cell.Rate || c.Cell.Background != nil {
			return false
		}
	}
	return true
}

// sweepBlock has a line for each size, and the geometric mean of the ratios
// below.
func sweepBlock(group []*analysis.Cell, rec *result.Record, s *analysis.Summary, n *notes) block {
	first := group[0]
	b := block{name: strings.Replace(cellName(first.Cell), bytesSize(first.Cell.Size), "by size", 1), caption: metricCaption(first.Cell)}
	b.columns = []column{{"size", false, 0}, {"noise", false, 2}, {sanitize.Text(first.Baseline), false, 1}}
	for _, r := range first.Rows {
		if r.Arm.Role == "" {
			b.columns = append(b.columns, column{sanitize.Text(r.Arm.Name), false, 3}, column{"vs " + sanitize.Text(first.Baseline), false, 0},
				column{"verdict", true, 0}, column{"CPU", false, 4})
		}
	}
	for _, r := range first.Rows {
		b.columns = append(b.columns, column{"CPU time in, " + sanitize.Text(r.Arm.Name), true, rankMarkdownOnly}, column{"cores busy, " + sanitize.Text(r.Arm.Name), true, rankMarkdownOnly})
	}
	ratios := make([][]float64, len(first.Rows))
	for _, c := range group {
		line := []string{bytesSize(c.Cell.Size), shortFloor(c), noFigure}
		for i := range c.Rows {
			r := &c.Rows[i]
			if r.Arm.Role == result.RoleBaseline {
				line[2] = value(c.Cell.Metric, r.Value) + n.marks(sweepNotes(r, c, rec, s))
				continue
			}
			text := ""
			if r.Ratio != nil {
				text = plusMinus(*r.Ratio)
			}
			if r.Ratio != nil && !r.Foreign() {
				ratios[i] = append(ratios[i], r.Ratio.Value)
			}
			line = append(line, value(c.Cell.Metric, r.Value), text,
				shortVerdict(r)+n.marks(sweepNotes(r, c, rec, s)), cpuRatio(r))
		}
		for _, r := range c.Rows {
			line = append(line, classText(r.CPU), coreText(r.CPU))
		}
		b.rows = append(b.rows, line)
	}
	last := []string{"geo mean", "", ""}
	for i, r := range first.Rows {
		if r.Arm.Role == "" {
			mean := ""
			if len(ratios[i]) > 0 {
				mean = ratio(stats.GeoMean(ratios[i]))
			}
			last = append(last, "", mean, "", "")
		}
	}
	b.rows = append(b.rows, append(last, make([]string, 2*len(first.Rows))...))
	for _, c := range group {
		if t := trouble(c); t != "" {
			b.footer = strings.TrimPrefix(b.footer+fmt.Sprintf("; %s %s", bytesSize(c.Cell.Size), t), "; ")
		}
	}
	return b
}

func shortFloor(c *analysis.Cell) string {
	switch f := c.Floor; {
	case f == nil || f.Ratio.Open:
		return noFigure
	case f.Invalid:
		return "TOO NOISY"
	default:
		return "±" + percent(f.Size)
	}
}

// shortVerdict leaves the size of the difference to the column before it.
func shortVerdict(r *analysis.Row) string {
	if r.Judged != nil && (r.Judged.Verdict == stats.Faster || r.Judged.Verdict == stats.Slower) {
		return differs(r)
	}
	return verdict(r)
}

func cpuRatio(r *analysis.Row) string {
	if r.CPU == nil || r.CPU.Ratio == nil {
		return ""
	}
	if r.Foreign() {
		return noFigure // an emulated CPU's work is not a real one's
	}
	return "x " + ratio(r.CPU.Ratio.Value)
}
