// Package change prints how the paths of one record changed from those of another.
package change

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/markdown"
	"github.com/venturi-net/venturi/internal/report/table"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// NamedRecord is a record, and what the user calls it.
type NamedRecord struct {
	Name   string
	Record *result.Record
}

// changeFormat and changeVersion identify the JSON of changes, as report.JSONFormat
// does that of a report.
const (
	changeFormat  = "venturi-change"
	changeVersion = 1
)

// formats are the formats that a change can be printed in.
var formats = []string{"table", "md", "json"}

// Formats names the formats that a change can be printed in, the default first.
func Formats() []string { return slices.Clone(formats) }

// Write prints how the paths of each later record changed from the first,
// and returns these changes. Errors: an unknown format, those of
// [analysis.Compare], or what w returned.
func Write(w io.Writer, recs []NamedRecord, opt view.Options) ([]*analysis.Change, error) {
	if opt.Format == "" {
		opt.Format = formats[0]
	}
	if !slices.Contains(formats, opt.Format) {
		return nil, fmt.Errorf("a comparison of runs cannot be printed as %q", opt.Format)
	}
	if opt.Width <= 0 {
		opt.Width = view.DefaultWidth
	}
	var changes []*analysis.Change
	for _, later := range recs[1:] {
		c, err := analysis.Compare(recs[0].Record, later.Record)
		if err != nil {
			return nil, fmt.Errorf("compare %s with %s: %w", later.Name, recs[0].Name, err)
		}
		changes = append(changes, c)
	}
	if opt.Format == "json" {
		return changes, writeChangesJSON(w, recs, changes)
	}
	for i, c := range changes {
		v := changeView(recs[0], recs[1+i], c)
		var err error
		if opt.Format == "md" {
			err = markdown.WriteView(w, v)
		} else {
			err = table.WriteChange(w, v, opt, i > 0)
		}
		if err != nil {
			return nil, fmt.Errorf("write report: %w", err)
		}
	}
	return changes, nil
}

func writeChangesJSON(w io.Writer, recs []NamedRecord, changes []*analysis.Change) error {
	type change struct {
		Before string `json:"before"`
		After  string `json:"after"`
		*analysis.Change
	}
	out := struct {
		Format  string   `json:"format"`
		Version int      `json:"version"`
		Changes []change `json:"changes"`
	}{Format: changeFormat, Version: changeVersion}
	for i, c := range changes {
		out.Changes = append(out.Changes, change{recs[0].Name, recs[1+i].Name, c})
	}
	if err := sanitize.JSON(w, out); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func changeView(before, after NamedRecord, c *analysis.Change) *view.Content {
	base := view.Baseline(&before.Record.Plan)
	a, b := sanitize.Text(before.Name), sanitize.Text(after.Name)
	v := &view.Content{Title: "Venturi: " + b + " against " + a, Facts: changeFacts(before, after, c)}
	var other []string
	for _, d := range c.Differences {
		text := sanitize.Text(d.What) + ": " + sanitize.Text(d.Before) + " -> " + sanitize.Text(d.After)
		if d.Machine {
			other = append(other, text)
		} else {
			v.Facts = append(v.Facts, [2]string{"changed", text})
		}
	}
	if len(other) > 0 {
		v.Banners = append(v.Banners, "NOT THE SAME MACHINE: "+strings.Join(other, "; ")+". Ratios to the host network can differ from machine to machine.")
	}
	t := view.Block{Columns: []view.Column{view.Label("load"), view.Label("path"), view.Number("before, vs "+base, 1), view.Number("after, vs "+base, 1),
		view.Number("after/before", 0), view.Number(unit.ExactPercent(c.Level)+" interval", 0), view.Label("verdict")}}
	for _, cell := range c.Cells {
		for i := range cell.Rows {
			r := &cell.Rows[i]
			t.Rows = append(t.Rows, []string{view.CellName(cell.Cell), sanitize.Text(r.Path), ratioOrNone(r.Before), ratioOrNone(r.After),
				unit.Ratio(r.Ratio.Value), view.Interval(&r.Ratio), changeVerdict(cell.Cell, r) + v.Notes.Marks(changeNotes(r, cell.Cell, c))})
			t.Ratios = append(t.Ratios, &r.Ratio)
		}
	}
	t.BarsAt = len(t.Columns) - 1
	v.Blocks = []view.Block{t}
	for _, m := range c.Missing {
		v.Remarks = append(v.Remarks, "Only "+a+" has "+sanitize.Text(m)+".")
	}
	for _, u := range c.Uncompared {
		v.Remarks = append(v.Remarks, "NOT COMPARED: "+sanitize.Text(u.Path)+" in "+view.CellName(u.Cell)+": "+u.Reason+".")
	}
	return v
}

// changeFacts say how to repeat it, and how to read it.
func changeFacts(before, after NamedRecord, c *analysis.Change) [][2]string {
	var out [][2]string
	for _, n := range []NamedRecord{before, after} {
		text := fmt.Sprintf("%s, seed %d", n.Record.Header.Started.UTC().Format("2006-01-02 15:04 UTC"), n.Record.Plan.Seed)
		if len(n.Record.Header.Command) > 0 {
			text += "; " + sanitize.Command(n.Record.Header.Command...)
		}
		out = append(out, [2]string{[]string{"before", "after"}[len(out)], sanitize.Text(n.Name) + ", " + text})
	}
	reading := fmt.Sprintf("\"after/before\" is the ratio to %s after, divided by the one before, with its %s interval over the series; same: the whole interval is within ±%s of 1; "+
		"faster and slower describe the path after", view.Baseline(&before.Record.Plan), unit.ExactPercent(c.Level), unit.ExactPercent(max(before.Record.Plan.Margin, after.Record.Plan.Margin)))
	if c.Tests > 1 {
		reading += fmt.Sprintf(", and hold for all %d comparisons together (Holm)", c.Tests)
	}
	return append(out, [2]string{"reading", reading})
}

func ratioOrNone(r *stats.Ratio) string {
	if r == nil {
		return unit.NoFigure
	}
	return unit.Ratio(r.Value)
}

func changeVerdict(c result.Cell, r *analysis.ChangeRow) string {
	if v := r.Judged.Verdict; v == stats.Faster || v == stats.Slower {
		return view.DifferenceWord(v, c.Metric.IsCPU()) + " " + unit.Change(r.Ratio.Value)
	}
	return view.UndecidedText(&r.Judged)
}

// changeNotes say why there is no verdict.
func changeNotes(r *analysis.ChangeRow, cell result.Cell, c *analysis.Change) []string {
	switch r.Judged.Reason {
	case stats.TooWide:
		return []string{"cannot tell < x %: the interval holds 1, and a difference below x % could not have been seen here. Longer runs (--budget) narrow it"}
	case stats.TooFew:
		return []string{fmt.Sprintf("a verdict takes %d whole series or more in both records", stats.MinSeries)}
	case stats.BelowHolm:
		return []string{fmt.Sprintf("on its own this would be a difference, but one this large is expected by chance among %d comparisons (Holm's correction)", c.Tests)}
	case stats.BelowNoise:
		return []string{view.CellName(cell) + ": the difference is smaller than the noise floor of one of the records"}
	case stats.Blank:
		return []string{view.CellName(cell) + ": too little arrived for a figure in too many slices of one of the records"}
	case stats.BadFloor:
		return []string{view.CellName(cell) + ": in one of the records two identical paths differ more than chance allows, so nothing is judged"}
	}
	return nil
}
