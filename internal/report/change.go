package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// NamedRecord is a record, and what the user calls it.
type NamedRecord struct {
	Name   string
	Record *result.Record
}

// changeFormat and changeVersion identify the JSON of changes, as [JSONFormat] does
// that of a report.
const (
	changeFormat  = "venturi-change"
	changeVersion = 1
)

// changeFormats are the formats that a change can be printed in.
var changeFormats = []string{"table", "md", "json"}

// ChangeFormats names the formats that a change can be printed in, the default first.
func ChangeFormats() []string { return slices.Clone(changeFormats) }

// WriteChanges prints how the paths of each later record changed from the first,
// and returns these changes. Errors: an unknown format, those of
// [analysis.Compare], or what w returned.
func WriteChanges(w io.Writer, recs []NamedRecord, opt Options) ([]*analysis.Change, error) {
	if opt.Format == "" {
		opt.Format = changeFormats[0]
	}
	if !slices.Contains(changeFormats, opt.Format) {
		return nil, fmt.Errorf("a comparison of runs cannot be printed as %q", opt.Format)
	}
	if opt.Width <= 0 {
		opt.Width = defaultWidth
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
			err = markdownView(w, v)
		} else {
			err = changeTable(w, v, opt.Width, i > 0)
		}
		if err != nil {
			return nil, fmt.Errorf("write report: %w", err)
		}
	}
	return changes, nil
}

func changeTable(w io.Writer, v *view, width int, apart bool) error {
	out := bufio.NewWriter(w)
	if apart {
		sanitize.Fprintln(out)
	}
	sanitize.Fprintln(out, v.title)
	writeBanners(out, v, width)
	writeBlocks(out, v, width)
	sanitize.Fprintln(out)
	writeFacts(out, v, width)
	writeNotes(out, v, width)
	return out.Flush()
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

func changeView(before, after NamedRecord, c *analysis.Change) *view {
	base := baseline(&before.Record.Plan)
	a, b := sanitize.Text(before.Name), sanitize.Text(after.Name)
	v := &view{title: "Venturi: " + b + " against " + a, facts: changeFacts(before, after, c)}
	var other []string
	for _, d := range c.Differences {
		text := sanitize.Text(d.What) + ": " + sanitize.Text(d.Before) + " -> " + sanitize.Text(d.After)
		if d.Machine {
			other = append(other, text)
		} else {
			v.facts = append(v.facts, [2]string{"changed", text})
		}
	}
	if len(other) > 0 {
		v.banners = append(v.banners, "NOT THE SAME MACHINE: "+strings.Join(other, "; ")+". Ratios to the host network can differ from machine to machine.")
	}
	t := block{columns: []column{{"load", true, 0}, {"path", true, 0}, {"before, vs " + base, false, 1}, {"after, vs " + base, false, 1},
		{"after/before", false, 0}, {setting(c.Level) + " interval", false, 0}, {"verdict", true, 0}}}
	for _, cell := range c.Cells {
		for i := range cell.Rows {
			r := &cell.Rows[i]
			t.rows = append(t.rows, []string{cellName(cell.Cell), sanitize.Text(r.Path), ratioOrNone(r.Before), ratioOrNone(r.After),
				ratio(r.Ratio.Value), interval(&r.Ratio), changeVerdict(cell.Cell, r) + v.notes.marks(changeNotes(r, cell.Cell, c))})
		}
	}
	v.blocks = []block{t}
	for _, m := range c.Missing {
		v.remarks = append(v.remarks, "Only "+a+" has "+sanitize.Text(m)+".")
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
		"faster and slower describe the path after", baseline(&before.Record.Plan), setting(c.Level), setting(max(before.Record.Plan.Margin, after.Record.Plan.Margin)))
	if c.Tests > 1 {
		reading += fmt.Sprintf(", and hold for all %d comparisons together (Holm)", c.Tests)
	}
	return append(out, [2]string{"reading", reading})
}

func ratioOrNone(r *stats.Ratio) string {
	if r == nil {
		return noFigure
	}
	return ratio(r.Value)
}

func changeVerdict(c result.Cell, r *analysis.ChangeRow) string {
	if v := r.Judged.Verdict; v == stats.Faster || v == stats.Slower {
		return differenceWord(v, c.Metric.IsCPU()) + " " + change(r.Ratio.Value)
	}
	return undecidedText(&r.Judged)
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
		return []string{cellName(cell) + ": the difference is smaller than the noise floor of one of the records"}
	case stats.Blank:
		return []string{cellName(cell) + ": too little arrived for a figure in too many slices of one of the records"}
	case stats.BadFloor:
		return []string{cellName(cell) + ": in one of the records two identical paths differ more than chance allows, so nothing is judged"}
	}
	return nil
}
