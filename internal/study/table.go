package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/report/layout"
	"github.com/venturi-net/venturi/internal/tool"
	"github.com/venturi-net/venturi/result"
)

// What a figure can show beside that of its load.
const (
	retransmits = "retransmits"
	cpu         = "cpu"
	runs        = "runs"
	full        = "full"
)

func (c *checker) tables() error {
	if len(c.file.Tables) == 0 {
		return wrong(lineOf(c.root, "tables", 0), "the study has no tables")
	}
	plan, err := c.study.Requests()[0].Plan()
	if err != nil {
		return err
	}
	emulated, err := c.study.OnEmulatedCPU().Requests()[0].Plan()
	if err != nil {
		return err
	}
	for i, t := range c.file.Tables {
		line := lineOf(c.root, "tables", i)
		if t.Title.s == "" {
			return wrong(line, "the table has no title")
		}
		out := layout.Table{Title: oneLine(t.Title), Baseline: t.Baseline.s}
		if err := c.sides(&out, t); err != nil {
			return err
		}
		if err := c.tablePaths(&out, t); err != nil {
			return err
		}
		if len(t.Figures) == 0 {
			return wrong(line, "the table has no figures")
		}
		for _, f := range t.Figures {
			figure, err := c.figure(f, max(f.Load.line, f.Name.line, line), plan.Cells, emulated.Cells)
			if err != nil {
				return err
			}
			out.Figures = append(out.Figures, figure)
		}
		if err := out.Check(); err != nil {
			return wrong(line, "%v", err)
		}
		c.study.Tables = append(c.study.Tables, out)
	}
	return nil
}

// sides reads what changes along the rows and the columns.
func (c *checker) sides(out *layout.Table, t fileTable) error {
	axes := fmt.Sprint(layout.Axes())
	seen := map[layout.Axis]bool{}
	for _, side := range []struct {
		from list
		to   *[]layout.Axis
	}{{t.Rows, &out.Rows}, {t.Columns, &out.Columns}} {
		for _, item := range side.from.items {
			axis := layout.Axis(item)
			if !slices.Contains(layout.Axes(), axis) {
				return wrong(side.from.line, "a table cannot go by %q, only by %s", item, strings.Trim(axes, "[]"))
			}
			if seen[axis] {
				return wrong(side.from.line, "the table goes by %s twice", axis)
			}
			seen[axis] = true
			*side.to = append(*side.to, axis)
			if axis == layout.ByWire {
				if err := c.byWire(out, side.from.line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// byWire makes a table one of all wires.
func (c *checker) byWire(out *layout.Table, line int) error {
	if len(c.study.Wires) == 1 {
		return wrong(line, "the table goes by wire, and the study has only one")
	}
	for _, w := range c.study.Wires {
		out.Wires = append(out.Wires, w.Name)
	}
	out.WiresOf = c.study.WiresOf
	return nil
}

func (c *checker) tablePaths(out *layout.Table, t fileTable) error {
	var known []string
	for _, p := range c.study.Paths {
		known = append(known, p.Name)
	}
	out.Paths = t.Paths.items
	if len(out.Paths) == 0 {
		out.Paths = known
	}
	for i, p := range out.Paths {
		if !slices.Contains(known, p) {
			return &mistake{line: t.Paths.line, reason: fmt.Sprintf("the study has no path %q", p), do: "its paths are " + strings.Join(known, ", ")}
		}
		if slices.Contains(out.Paths[:i], p) {
			return wrong(t.Paths.line, "the table has path %s twice", p)
		}
	}
	if b := t.Baseline; b.s != "" && !slices.Contains(out.Paths, b.s) {
		return &mistake{line: b.line, reason: fmt.Sprintf("the table has no path %q to compare with", b.s), do: "its paths are " + strings.Join(out.Paths, ", ")}
	}
	return nil
}

// figure reads a figure, which must be of what is measured, emulated of that where the CPU is.
func (c *checker) figure(f fileFigure, line int, measured, emulated []result.Cell) (layout.Figure, error) {
	out := layout.Figure{Name: oneLine(f.Name), Load: f.Load.s, Unit: f.Unit.s}
	cell, err := cellSpec(f.Load, f.Sizes, f.Flows, f.fileTraffic, line)
	if err != nil {
		return out, err
	}
	q := compare.Request{Cells: []compare.CellSpec{cell}}
	plan, err := q.Plan()
	if err != nil {
		return out, because(line, err)
	}
	for _, shown := range plan.Cells {
		same := func(m result.Cell) bool { return m.Name == shown.Name }
		out.RealCPU = out.RealCPU || !slices.ContainsFunc(emulated, same)
		if !slices.ContainsFunc(measured, same) {
			return out, &mistake{line: line, reason: shown.Name + " is shown and not measured", do: "add it to the loads of the study"}
		}
		out.Sizes, out.Flows = insertMissing(out.Sizes, shown.Size), insertMissing(out.Flows, shown.Flows)
		out.Load, out.Threads, out.Response, out.Rate, out.Background = shown.Load, shown.Threads, shown.Response, shown.Rate, shown.Background
	}
	l, err := load.Find(cell.Load)
	if err != nil {
		return out, because(line, err)
	}
	if out.Runs = f.Show.s == runs; f.Show.s != "" && !out.Runs {
		return out, auxiliaryFigure(&out, f, l)
	}
	units := layout.Units(plan.Cells[0].Metric)
	if out.Unit == "" {
		out.Unit = units[0]
	}
	if !slices.Contains(units, out.Unit) {
		return out, &mistake{line: f.Unit.line, reason: fmt.Sprintf("%s cannot be shown in %q", l.Name, out.Unit), do: "its units are " + strings.Join(units, ", ")}
	}
	return out, nil
}

// auxiliaryFigure reads a figure that is not the load's own.
func auxiliaryFigure(out *layout.Figure, f fileFigure, l load.Load) error {
	stream := l.Kind == load.Stream
	switch f.Show.s {
	case retransmits:
		out.Retransmits = true
		if l.Transport != "tcp" || !stream {
			return wrong(f.Show.line, "%s has no retransmits: only a TCP stream has", l.Name)
		}
		if t, err := tool.Find(f.Tool.s); err == nil && t != tool.Iperf3 {
			return wrong(f.Show.line, "%s does not tell its retransmits", t.Name)
		}
		if f.Unit.s != "" {
			return wrong(f.Unit.line, "retransmits have no unit: they are counted for 10 s of sending")
		}
	case cpu:
		out.CPU = true
		if !stream || slices.Min(out.Sizes) < layout.LeastCPUSize {
			return wrong(f.Show.line, "%s has no CPU time for its bytes: only a stream of messages of %d bytes or more has", l.Name, layout.LeastCPUSize)
		}
		if f.Unit.s != "" {
			return wrong(f.Unit.line, "cpu has no other unit than seconds for 1 GB")
		}
	case full:
		out.Full = true
		if f.Tool.s != "" {
			return wrong(f.Show.line, "no meters run beside %s", f.Tool.s)
		}
		if f.Unit.s != "" {
			return wrong(f.Unit.line, "the full resources are listed by name, so they have no unit")
		}
	default:
		return wrong(f.Show.line, "show is %q, but must be %s, %s, %s or %s", f.Show.s, retransmits, cpu, full, runs)
	}
	return nil
}

// insertMissing adds a value unless it is present.
func insertMissing(all []int, v int) []int {
	if slices.Contains(all, v) {
		return all
	}
	return append(all, v)
}
