// Package verify checks the instrument itself, with the instrument's own code from end to
// end: its figures agree with those of well-known tools, it calls identical paths the
// same, and it sees a small difference.
//
// These are benchmarks with limits, run by hand on a quiet machine. Tests run short forms
// of them that no slow machine can fail.
package verify

import (
	"context"
	"fmt"
	"io"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Comparer runs comparisons one after another in one lab, and keeps no records.
type Comparer struct {
	Session *compare.Session
}

func OpenComparer(ctx context.Context, q compare.Request, h compare.Host) (*Comparer, error) {
	s, _, err := compare.OpenRequest(ctx, q, h)
	if err != nil {
		return nil, err
	}
	return &Comparer{Session: s}, nil
}

func (b *Comparer) Close() error { return b.Session.Close() }

// Compare makes one comparison and analyses it.
func (b *Comparer) Compare(ctx context.Context, q compare.Request) (*analysis.Summary, error) {
	rec, err := b.Record(ctx, q)
	if err != nil {
		return nil, err
	}
	return analysis.Analyze(rec, analysis.Options{Live: true})
}

// Record makes one comparison.
func (b *Comparer) Record(ctx context.Context, q compare.Request) (*result.Record, error) {
	r, err := q.Resolve()
	if err != nil {
		return nil, err
	}
	rec, err := b.Session.Compare(ctx, r, func(result.Line) error { return nil })
	if err != nil {
		return nil, err
	}
	if rec.End != nil && rec.End.Reason == result.Interrupted {
		return nil, ctx.Err()
	}
	for _, w := range rec.Warnings {
		if w.Code == "arm-failed" || w.Code == "tool-failed" {
			return nil, fmt.Errorf("measure %s on %s: %s", w.Cell, w.Arm, w.Text)
		}
	}
	return rec, nil
}

// RowOf finds what a path did under a load.
func RowOf(s *analysis.Summary, arm, load string, flows int) (analysis.Row, bool) {
	for _, cell := range s.Cells {
		for _, row := range cell.Rows {
			if cell.Cell.Load == load && cell.Cell.Flows == flows && row.Arm.Name == arm {
				return row, true
			}
		}
	}
	return analysis.Row{Arm: result.Arm{Name: arm}}, false
}

// Requirement is a condition that must hold.
type Requirement struct {
	Text  string
	Holds bool
}

// CheckRequirements prints the requirements, and fails if one does not hold.
func CheckRequirements(w io.Writer, what string, limits []Requirement) error {
	missed := 0
	for _, l := range limits {
		mark := "holds "
		if !l.Holds {
			mark = "MISSED"
			missed++
		}
		fmt.Fprintf(w, "%s  %s\n", mark, l.Text)
	}
	if missed == 0 {
		return nil
	}
	return verr.New(verr.Failed, what, fmt.Sprintf("%d of %d limits were missed, marked above", missed, len(limits)),
		"run it again on a host that does nothing else; if limits are missed again, report it as a defect")
}
