package display

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/tune"
)

// ProvedReport is what a proof found, for machines.
type ProvedReport struct {
	Version int    `json:"version"`
	Profile string `json:"profile"`
	Path    string `json:"path"`
	*tune.ProofResult
	Commands []string       `json:"commands"` // that would make the proven changes
	Skipped  []tune.Skipped `json:"skipped"`
}

func (r ProvedReport) Print(out io.Writer, all bool) error {
	sanitize.Fprintf(out, "profile %s on %s, %d pairs of measurements\n\n", r.Profile, r.Path, r.Pairs)
	var heads []string
	for _, n := range r.Noise {
		heads = append(heads, n.Metric)
		if n.Out != "" {
			sanitize.Fprintf(out, "not judged: %s\n", n.Out)
		}
	}
	w := columns(out)
	sanitize.Fprintf(w, "change\tverdict\t%s\tpairs\n", tabbed(heads))
	for _, row := range r.Rows {
		if row.Verdict == search.VerdictNotTried {
			sanitize.Fprintf(w, "%s\t%s: %s\n", row.Knob, row.Verdict, row.Reason)
			continue
		}
		sanitize.Fprintf(w, "%s\t%s\t%s\t%d\n", row.Knob, verdictOf(row), tabbed(cellsOf(heads, row.Effects)), row.Pairs)
	}
	if len(r.Confirm) > 0 {
		sanitize.Fprintf(w, "the set\t%s\t%s\t%d\n", setVerdict(r), tabbed(cellsOf(heads, r.Confirm)), r.Confirm[0].Pairs)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var finest []string
	for _, n := range r.Noise {
		if n.Out == "" {
			finest = append(finest, fmt.Sprintf("%s %.1f %%", n.Metric, 100*n.MDE))
		}
	}
	if len(finest) > 0 {
		sanitize.Fprintf(out, "\nsmallest effects that would have been seen: %s\n", strings.Join(finest, ", "))
	}
	if r.Reason != "" {
		sanitize.Fprintf(out, "a set was found, but it is not proven: %s\n", r.Reason)
	}
	printSkipped(out, slices.DeleteFunc(slices.Clone(r.Skipped), func(s tune.Skipped) bool { return s.Observed != "" }), all) // those have rows
	if len(r.Skipped) > 0 {
		sanitize.Fprintln(out)
	}
	if len(r.Commands) == 0 {
		_, err := sanitize.Fprintf(out, "nothing was proven to help; everything is as it was before\n")
		return err
	}
	sanitize.Fprintf(out, "everything is as it was before; these commands make the proven changes:\n")
	for _, c := range r.Commands {
		if _, err := sanitize.Fprintf(out, "  %s\n", c); err != nil {
			return err
		}
	}
	return nil
}

// tabbed puts texts into columns.
func tabbed(cells []string) sanitize.Safe {
	clean := make([]string, len(cells))
	for i, c := range cells {
		clean[i] = sanitize.Text(c)
	}
	return sanitize.Safe(strings.Join(clean, "\t"))
}

func verdictOf(row search.Row) string {
	if row.Metric != "" {
		return fmt.Sprintf("%s (%s)", row.Verdict, row.Metric)
	}
	return string(row.Verdict)
}

func setVerdict(r ProvedReport) string {
	if len(r.Set) > 0 {
		return "confirmed"
	}
	return "not confirmed"
}

// cellsOf prints effects as changes: "-7.1 % [-9, -5]".
func cellsOf(metrics []string, effects []search.Effect) []string {
	cells := make([]string, len(metrics))
	for i, name := range metrics {
		for _, e := range effects {
			if e.Metric != name {
				continue
			}
			cells[i] = percent(e.Value)
			if !e.Open {
				cells[i] += fmt.Sprintf(" [%s, %s]", percent(e.Lo), percent(e.Hi))
			}
		}
	}
	return cells
}

// percent prints a ratio as a change; large ones as factors.
func percent(ratio float64) string {
	if ratio >= 3 {
		return fmt.Sprintf("x%.3g", ratio)
	}
	v := 100 * (ratio - 1)
	digits := 1
	if math.Abs(v) >= 10 {
		digits = 0
	}
	return fmt.Sprintf("%+.*f %%", digits, v)
}
