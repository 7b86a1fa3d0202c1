package compare

import (
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/tool"
	"github.com/venturi-net/venturi/result"
)

// CellSpec is one load with the sizes and numbers of flows that it runs at.
type CellSpec struct {
	Load  string
	Sizes string // see ParseSizes; empty: the load's own
	Flows []int  // connections at a time; none: one
}

// cells are the blocks of rows: every load at each of its sizes with each of
// its numbers of flows, and none of them twice.
func (q Request) cells() ([]result.Cell, error) {
	var cells []result.Cell
	taken := map[string]bool{}
	for _, spec := range q.Cells {
		l, err := load.Find(spec.Load)
		if err != nil {
			return nil, err
		}
		if err := l.CheckBatch(q.Batch); err != nil {
			return nil, err
		}
		sizes, err := spec.sizes(l)
		if err != nil {
			return nil, err
		}
		for _, size := range sizes {
			if err := l.CheckSize(size); err != nil {
				return nil, err
			}
			if q.assumed && !q.toolsCarry(l.Name, size) {
				continue
			}
			for _, flows := range spec.flows() {
				if c := q.cell(l, size, flows); !taken[c.Name] {
					taken[c.Name] = true
					cells = append(cells, c)
				}
			}
		}
	}
	return cells, nil
}

func (s CellSpec) sizes(l load.Load) ([]int, error) {
	if s.Sizes == "" {
		return []int{l.Size}, nil
	}
	return ParseSizes(s.Sizes)
}

func (s CellSpec) flows() []int {
	if len(s.Flows) == 0 {
		return []int{1}
	}
	return s.Flows
}

// toolsCarry tells whether all tools of the request have a load at a size.
func (q Request) toolsCarry(name string, size int) bool {
	for _, with := range q.Tools {
		if t, err := tool.Find(with); err == nil && t.Carries(name, size) != nil {
			return false
		}
	}
	return true
}

func (q Request) cell(l load.Load, size, flows int) result.Cell {
	c := result.Cell{
		Name: load.CellName(l.Name, size, flows, q.Batch), Load: l.Name, Transport: l.Transport,
		Size: size, Flows: flows, Metric: l.Metric, Slice: l.Slice, Head: l.Head,
	}
	if q.Batch > 1 {
		c.Batch = q.Batch
	}
	if l.Kind == load.Stream {
		c.Metric = load.StreamMetric(size)
	}
	if len(q.Tools) > 0 {
		c.Slice = toolSlice
	}
	if q.Slice > 0 {
		c.Slice = q.Slice
	}
	return c
}
