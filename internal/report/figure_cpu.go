package report

import (
	"maps"
	"slices"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/chart"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// cpuClasses is the order of the parts; what the kernel has beside these follows.
var cpuClasses = []string{"user", "system", "softirq", "irq"}

// cpuFigure splits what a unit of work costs by class of CPU time.
func cpuFigure(rec *result.Record, s *analysis.Summary) []drawing {
	c := chart.Bars{Texts: chart.Texts{Title: "CPU time by class", Desc: "What a unit of work costs on all cores together. Shorter is better."}}
	table := block{columns: []column{{"load", true, 0}, {"path", true, 0}, {"CPU time", false, 0}, {"time in", true, 0}, {"cores busy", true, 0}}}
	for _, cells := range byLoad(s) {
		if isSweep(cells) {
			continue
		}
		for _, cell := range cells {
			g := chart.BarGroup{}
			for _, r := range cell.Rows {
				if r.CPU == nil {
					continue
				}
				g.Name = cellName(cell.Cell) + ": CPU time per " + r.CPU.Unit
				g.Bars = append(g.Bars, cpuBar(&r))
				table.rows = append(table.rows, []string{cellName(cell.Cell), sanitize.Text(r.Arm.Name),
					cost(r.CPU) + "/" + r.CPU.Unit, classText(r.CPU), coreText(r.CPU)})
			}
			if len(g.Bars) > 0 {
				c.Groups = append(c.Groups, g)
			}
		}
	}
	if len(c.Groups) == 0 {
		return nil
	}
	return []drawing{{name: "cpu", texts: c.Texts, chart: c, table: table}}
}

func cpuBar(r *analysis.Row) chart.Bar {
	b := chart.Bar{Name: sanitize.Text(r.Arm.Name), Text: cost(r.CPU)}
	names := slices.Clone(cpuClasses)
	for _, name := range slices.Sorted(maps.Keys(r.CPU.Classes)) {
		if name != "guest" && !slices.Contains(names, name) { // guest time is within user's
			names = append(names, name)
		}
	}
	sum := 0.0
	for _, name := range names {
		sum += finite(r.CPU.Classes[name])
	}
	for _, name := range names {
		share := finite(r.CPU.Classes[name])
		if !(share > 0) || !(sum > 0) {
			continue
		}
		// Classes are sampled, the cost is exact: they say how it is split.
		part := share / sum
		b.Parts = append(b.Parts, chart.Part{Name: sanitize.Text(name), Value: part * finite(r.CPU.Cost),
			Title: b.Name + ", " + sanitize.Text(name) + ": " + percent(part)})
	}
	return b
}
