package compare

import (
	"cmp"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/tool"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// withTool adds the cells of the tools, each of which runs those of the loads that it has
// once more. Where the user names no loads, they are the tools' own.
func (q Request) withTool() Request {
	if len(q.LoadTools) == 0 {
		return q
	}
	tools := dedup(q.LoadTools)
	if q.assumed {
		var loads []string
		for _, name := range tools {
			if t, err := tool.Find(name); err == nil {
				for _, l := range t.Loads {
					loads = append(loads, l.Name)
				}
			}
		}
		if len(loads) > 0 {
			q.Cells = nil
		}
		for _, l := range dedup(loads) {
			q.Cells = append(q.Cells, q.cellSpec(l))
		}
	}
	ours := q.Cells
	for _, name := range tools {
		t, err := tool.Find(name)
		runs := slices.DeleteFunc(slices.Clone(ours), func(c CellSpec) bool {
			if err != nil {
				return false
			}
			_, not := t.Load(c.Load)
			return not != nil
		})
		if len(runs) == 0 {
			runs = ours // it is refused, with the names of those that it has
		}
		for _, spec := range runs {
			spec.Tool = name
			q.Cells = append(q.Cells, spec)
		}
	}
	return q
}

// toolNames are the tools that take part, whichever way.
func (q Request) toolNames() []string {
	names := append([]string{}, q.BesideTools...)
	for _, spec := range q.Cells {
		if spec.Tool != "" {
			names = append(names, spec.Tool)
		}
	}
	return dedup(names)
}

// toolCells are the cells of a load that a real tool runs, with the tool's own sizes.
func (q Request) toolCells(l load.Load, spec CellSpec) (cells []result.Cell, err error) {
	t, err := tool.Find(spec.Tool)
	if err != nil {
		return nil, err
	}
	own, err := t.Load(l.Name)
	if err != nil {
		return nil, err
	}
	refuse := func(flag, why string) ([]result.Cell, error) {
		return nil, verr.New(verr.Usage, "cannot run "+t.Name+" with --"+flag, why, "leave one of them out")
	}
	switch {
	case spec.Background != nil:
		return refuse("beside", "a real tool runs alone")
	case spec.Curve != "":
		return refuse("curve", "a real tool runs alone")
	case spec.Response > 0:
		return refuse("response", "the tool's answers are as long as its requests")
	case spec.Threads > 0:
		return refuse("threads", "the tool chooses its own number of threads")
	case q.Batch > 1:
		return refuse("batch", "the tool sends one message per system call")
	case len(q.BesideTools) > 0:
		return nil, verr.New(verr.Usage, "cannot combine --tool with --with", "one runs a tool on every path, the other beside the first", "leave one of them out")
	case len(q.Remote.Machines) > 0 || q.Cluster != nil:
		return nil, verr.New(verr.Usage, "cannot run "+t.Name+" on machines", "real tools run only in a lab", "leave --tool out")
	}
	sizes := []int{own.Size}
	if spec.Sizes != "" {
		if sizes, err = ParseSizes(spec.Sizes); err != nil {
			return nil, err
		}
	}
	for _, size := range sizes {
		if err := t.Carries(l.Name, size); err != nil {
			return nil, err
		}
		for _, flows := range spec.flows() {
			if err := t.CheckRun(own, flows, spec.Rate); err != nil {
				return nil, err
			}
			c := result.Cell{
				Load: t.Name + ":" + l.Name, Transport: l.Transport, Size: size, Flows: flows, Rate: spec.Rate,
				Metric: cmp.Or(own.Metric, l.MetricAt(0, size)), Meaning: own.Meaning, Slice: cmp.Or(q.ToolTime, toolSlice),
			}
			if q.ToolTime == 0 && q.Slice > toolSlice && q.Slice%time.Second == 0 {
				c.Slice = q.Slice
			}
			c.Name = load.CellName(c)
			cells = append(cells, c)
		}
	}
	return cells, nil
}
