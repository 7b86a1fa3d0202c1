package compare

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/tool"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// CellSpec is one load with the sizes and numbers of flows that it runs at.
type CellSpec struct {
	Load  string
	Sizes string // see ParseSizes; empty: the load's own
	Flows []int  // connections at a time; none: one
	// Threads is how many threads of each end the flows are dealt out to; 0: see
	// [load.Plan].
	Threads int
	Rate    float64 // see load.CheckRate; 0: the load's own
	Tool    string  // the real program that runs it in our place; empty: none does
	// Response is how many bytes the answers to requests have; 0: as many.
	Response int

	Background *result.BackgroundLoad // what runs beside the load; nil: nothing
	Curve      string                 // names the background that the curve is drawn beside, of which this is a point; empty: none
}

// cellSpec is one load as all Loads run.
func (q Request) cellSpec(name string) CellSpec {
	return CellSpec{Load: name, Sizes: q.Sizes, Flows: q.Flows, Threads: q.Threads, Rate: q.Rate, Response: q.Response, Background: q.Background}
}

// cells are the blocks of rows: every load at each of its sizes with each of
// its numbers of flows, and none of them twice.
func (q Request) cells() ([]result.Cell, error) {
	var cells []result.Cell
	taken := map[string]bool{}
	add := func(c result.Cell) {
		if !taken[c.Name] {
			taken[c.Name] = true
			cells = append(cells, c)
		}
	}
	specs := q.Cells
	for _, spec := range slices.Backward(specs) { // what a background has a share of is measured before
		if b := spec.Background; b != nil && b.Share > 0 {
			specs = slices.Insert(slices.Clone(specs), 0, maximumSpec(b))
		}
	}
	for _, spec := range specs {
		l, err := load.Find(spec.Load)
		if err != nil {
			return nil, err
		}
		if spec.Tool != "" {
			of, err := q.toolCells(l, spec)
			if err != nil {
				return nil, err
			}
			for _, c := range of {
				add(c)
			}
			continue
		}
		if err := l.CheckBatch(q.Batch, spec.Rate); err != nil {
			return nil, err
		}
		if err := l.CheckResponse(spec.Response); err != nil {
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
				if err := l.CheckFlows(flows); err != nil {
					return nil, err
				}
				if err := l.CheckThreads(spec.Threads, flows, max(size, spec.Response)); err != nil {
					return nil, err
				}
				if err := l.CheckRate(spec.Rate, size, flows); err != nil {
					return nil, err
				}
				if err := q.checkBeside(l, spec.Background); err != nil {
					return nil, err
				}
				c := q.cell(l, size, flows, spec)
				if err := q.checkSlice(l, c); err != nil {
					return nil, err
				}
				add(c)
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

// checkSlice refuses a slice without a request.
func (q Request) checkSlice(l load.Load, c result.Cell) error {
	least := l.LeastSlice(c.Rate, c.Size, c.Flows)
	if c.Slice >= least {
		return nil
	}
	return verr.New(verr.Usage, fmt.Sprintf("cannot compare with --slice %s", c.Slice),
		fmt.Sprintf("at this rate %s sends once in %s", l.Name, least),
		fmt.Sprintf("choose a slice of %s or more, or a higher --rate", l.SliceAt(c.Rate, c.Size, c.Flows)))
}

// toolsCarry tells whether all tools of the request have a load at a size.
func (q Request) toolsCarry(name string, size int) bool {
	for _, with := range q.BesideTools {
		if t, err := tool.Find(with); err == nil && t.Carries(name, size) != nil {
			return false
		}
	}
	return true
}

func (q Request) cell(l load.Load, size, flows int, spec CellSpec) result.Cell {
	rate := spec.Rate
	c := result.Cell{
		Load: l.Name, Transport: l.Transport, Rate: cmp.Or(rate, l.Rate), Response: spec.Response,
		Size: size, Flows: flows, Threads: spec.Threads, Metric: l.MetricAt(rate, size), Head: l.Head, Background: spec.Background,
	}
	c.Slice = l.SliceAt(c.Rate, size, flows)
	if q.Batch > 1 {
		c.Batch = q.Batch
	}
	c.Name = load.CellName(c)
	if spec.Curve != "" {
		alone := c
		alone.Background = nil
		c.Curve = load.CellName(alone) + " beside " + spec.Curve
	}
	if len(q.BesideTools) > 0 {
		c.Slice = cmp.Or(q.ToolTime, toolSlice)
	}
	if q.Slice > 0 {
		c.Slice = q.Slice
	}
	return c
}
