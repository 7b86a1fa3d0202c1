package figure

import (
	"maps"
	"slices"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/chart"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// cpuClasses is the order of the parts; what the kernel has beside these follows.
var cpuClasses = []string{"user", "system", "softirq", "irq"}

// cpuFigure splits what a unit of work costs by class of CPU time.
func cpuFigure(rec *result.Record, s *analysis.Summary) []Drawing {
	c := chart.Bars{Texts: chart.Texts{Title: "CPU time by class", Desc: "CPU time for a unit of work, on all cores together. Shorter is better."}}
	table := view.Block{Columns: []view.Column{view.Label("load"), view.Label("path"), view.Number("CPU time", 0), view.Label("time in"), view.Label("cores busy")}}
	for cell := range singleCells(s) {
		if cell.Cell.Background != nil {
			continue // most of the time is the other stream's
		}
		g := chart.BarGroup{}
		for _, r := range cell.Rows {
			if r.CPU == nil {
				continue
			}
			g.Name = view.CellName(cell.Cell) + ": CPU time per " + r.CPU.Unit
			g.Bars = append(g.Bars, cpuBar(&r))
			table.Rows = append(table.Rows, []string{view.CellName(cell.Cell), sanitize.Text(r.Arm.Name),
				unit.Cost(r.CPU) + "/" + r.CPU.Unit, view.ClassText(r.CPU), view.CoreText(r.CPU)})
		}
		if len(g.Bars) > 0 {
			c.Groups = append(c.Groups, g)
		}
	}
	if len(c.Groups) == 0 {
		return nil
	}
	return []Drawing{{name: "cpu", Texts: c.Texts, Chart: c, Table: table}}
}

func cpuBar(r *analysis.Row) chart.Bar {
	b := chart.Bar{Name: sanitize.Text(r.Arm.Name), Text: unit.Cost(r.CPU)}
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
			Title: b.Name + ", " + sanitize.Text(name) + ": " + unit.Percent(part)})
	}
	return b
}
