package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// Change is how paths changed from one record to another: before and after a
// kernel, a release of a CNI, a tuning. A path's ratio to the baseline in the one
// is set against that in the other, so it does not matter how fast the machine
// was on either day.
type Change struct {
	Level float64      `json:"level"` // confidence of each interval
	Tests int          `json:"tests"` // how many comparisons Holm's correction covers
	Cells []ChangeCell `json:"cells"` // in the order of the first record, those with rows
	// Differences are what of machines, plans and paths differs beside.
	Differences []Difference `json:"differences,omitempty"`
	// Missing are loads, and paths in loads, that only the first record has.
	Missing []string `json:"missing,omitempty"`
	// Uncompared are paths that both records have, and for which one has no figure, or none to be compared.
	Uncompared []Uncompared `json:"uncompared,omitempty"`
}

// Uncompared is a path in a load that is not compared.
type Uncompared struct {
	Cell   result.Cell `json:"cell"`
	Path   string      `json:"path"`
	Reason string      `json:"reason"`
}

// ChangeCell is one load at one size.
type ChangeCell struct {
	Cell result.Cell `json:"cell"`
	Rows []ChangeRow `json:"rows"`
}

// ChangeRow is one path.
type ChangeRow struct {
	Path     string          `json:"path"`
	Before   *stats.Ratio    `json:"before,omitempty"` // to the baseline; nil: without data
	After    *stats.Ratio    `json:"after,omitempty"`
	Ratio    stats.Ratio     `json:"ratio"`      // of these: after to before
	Adjusted float64         `json:"p_adjusted"` // p-value after Holm
	Judged   stats.Judgement `json:"judged"`
}

// Errors of [Compare].
var (
	// ErrMixedEmulation is records of which one was measured on an emulated CPU and
	// one on a real one.
	ErrMixedEmulation = errors.New("one record was measured on an emulated CPU, and the other on a real one")
	// ErrOtherBaseline is records whose ratios are to different paths.
	ErrOtherBaseline = errors.New("the baseline of one record is another path than that of the other")
	// ErrNothingInCommon is records without a path and load that both have.
	ErrNothingInCommon = errors.New("the records have no path and load in common")
)

// side is one of two records that are compared.
type side struct {
	*analyzer
	sum *Summary
}

// Compare sets the paths of two records against each other. Errors: [ErrNoPlan],
// [ErrMixedEmulation], [ErrOtherBaseline], [ErrNothingInCommon].
func Compare(before, after *result.Record) (*Change, error) {
	var sides [2]side
	for i, rec := range []*result.Record{before, after} {
		a, err := newAnalyzer(rec, Options{Live: true})
		if err != nil {
			return nil, err
		}
		sides[i] = side{a, a.summary()}
	}
	a, b := &sides[0], &sides[1]
	if a.sum.Emulated != b.sum.Emulated {
		return nil, ErrMixedEmulation
	}
	if a.baseline.Name != b.baseline.Name {
		return nil, fmt.Errorf("%w: %s, and %s", ErrOtherBaseline, a.baseline.Name, b.baseline.Name)
	}
	design := stats.Design{
		Confidence: min(before.Plan.Confidence, after.Plan.Confidence),
		Looks:      max(a.sum.Looks, b.sum.Looks),
		Anytime:    before.Plan.UntilDecided || after.Plan.UntilDecided,
	}
	c := &Change{Level: design.Level(), Differences: differences(before, after)}
	var floors []*stats.Floor // one a cell
	for _, ca := range a.sum.Planned() {
		cb := b.matchingCell(ca.Cell)
		if cb == nil {
			c.Missing = append(c.Missing, ca.Cell.Name)
			continue
		}
		cell := ChangeCell{Cell: ca.Cell}
		for j := range ca.Rows[1:] {
			ra := &ca.Rows[1+j]
			rb := cb.Row(ra.Arm.Name)
			if rb == nil {
				c.Missing = append(c.Missing, ra.Arm.Name+" in "+ca.Cell.Name)
				continue
			}
			row, why := changeRow(a, b, ca, cb, ra, rb, design)
			if why != "" {
				c.Uncompared = append(c.Uncompared, Uncompared{ca.Cell, ra.Arm.Name, why})
				continue
			}
			cell.Rows = append(cell.Rows, row)
		}
		if len(cell.Rows) > 0 {
			c.Cells, floors = append(c.Cells, cell), append(floors, higherFloor(ca.Floor, cb.Floor))
		}
	}
	if len(c.Cells)+len(c.Uncompared) == 0 {
		return nil, ErrNothingInCommon
	}
	c.assignVerdicts(floors, max(before.Plan.Margin, after.Plan.Margin), design)
	return c, nil
}

// matchingCell finds the same load at the same size.
func (s *side) matchingCell(c result.Cell) *Cell {
	for _, o := range s.sum.Planned() {
		if o.Cell.Name == c.Name && o.Cell.Metric == c.Metric {
			return o
		}
	}
	return nil
}

// Row finds a path; nil: there is none of that name.
func (c *Cell) Row(path string) *Row {
	i := slices.IndexFunc(c.Rows, func(r Row) bool { return r.Arm.Name == path })
	if i < 0 {
		return nil
	}
	return &c.Rows[i]
}

// logs are a path's log-ratios to the baseline, by series.
func (s *side) logs(c *Cell, path string) [][]float64 {
	d, base := s.data[key{c.Cell.Name, path}], s.data[key{c.Cell.Name, c.Baseline}]
	if d == nil || base == nil {
		return nil
	}
	return s.pair(c.Cell, d, base)
}

// changeRow compares a path, or says why it cannot.
func changeRow(a, b *side, ca, cb *Cell, ra, rb *Row, d stats.Design) (row ChangeRow, why string) {
	if ca.foreign(ra) || cb.foreign(rb) {
		return row, "its CPU, or the baseline's, is emulated"
	}
	switch {
	case ra.Ratio == nil && rb.Ratio == nil:
		return row, "neither run has a ratio"
	case ra.Ratio == nil:
		return row, "there was no ratio before"
	case rb.Ratio == nil:
		return row, "there is no ratio after"
	}
	r, _ := stats.Quotient(a.logs(ca, ra.Arm.Name), b.logs(cb, rb.Arm.Name), d)
	row = ChangeRow{Path: ra.Arm.Name, Before: ra.Ratio, After: rb.Ratio, Ratio: r, Adjusted: 1}
	if ca.blank(ra) || cb.blank(rb) {
		row.Judged = stats.Judgement{Verdict: stats.CannotTell, Reason: stats.Blank}
	}
	return row, ""
}

// higherFloor is the floor of a comparison of two cells: what either machine could
// not tell apart is not told apart.
func higherFloor(a, b *stats.Floor) *stats.Floor {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	out := *a
	if b.Size > a.Size {
		out = *b
	}
	out.Invalid = a.Invalid || b.Invalid
	return &out
}

// assignVerdicts gives the verdicts; floors has one for each cell.
func (c *Change) assignVerdicts(floors []*stats.Floor, margin float64, d stats.Design) {
	var rows []*ChangeRow
	var ps []float64
	for i := range c.Cells {
		for j := range c.Cells[i].Rows {
			r := &c.Cells[i].Rows[j]
			if r.Judged.Reason != stats.Blank && !r.Ratio.Open && (floors[i] == nil || !floors[i].Invalid) {
				rows, ps = append(rows, r), append(ps, r.Ratio.P)
			}
		}
	}
	c.Tests = len(ps)
	for i, p := range stats.Holm(ps) {
		rows[i].Adjusted = p
	}
	for i := range c.Cells {
		cell := &c.Cells[i]
		rule := stats.Criterion{Margin: margin, LowerIsBetter: cell.Cell.Metric.LowerIsBetter(), Alpha: d.Alpha(), Floor: floors[i]}
		for j := range cell.Rows {
			if r := &cell.Rows[j]; r.Judged.Reason != stats.Blank {
				r.Judged = stats.Judge(r.Ratio, r.Adjusted, rule)
			}
		}
	}
}
