package display

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/tune"
)

func PrintKnobs(out io.Writer, list []KnobReading) error {
	w := columns(out)
	sanitize.Fprintf(w, "KNOB\tSCOPE\tNOW\tHELPS\tWHAT IT IS\n")
	for _, r := range list {
		now := "-"
		if r.Now != nil {
			now = shortened(inEffect(*r.Now), 24)
		}
		title := r.Title
		switch {
		case r.Instead != "":
			title = "obsolete: " + title
		case r.ManualOnly != "":
			title = "(never automatic) " + title
		}
		sanitize.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, r.Scope, now, helps(r.Facts), title)
	}
	return w.Flush()
}

// shortened is the beginning of a text that is too long for a column.
func shortened(text string, width int) string {
	if letters := []rune(text); len(letters) > width {
		return string(letters[:width-3]) + "..."
	}
	return text
}

func helps(f knob.Facts) string {
	var words []string
	for _, e := range f.Helps {
		words = append(words, string(e))
	}
	return strings.Join(words, ", ")
}

// PrintKnob tells all of one knob.
func PrintKnob(out io.Writer, r KnobReading) error {
	w := columns(out)
	for _, row := range cardOf(r.Facts) {
		for i, line := range strings.Split(string(wrapCell(row.text)), "\n") {
			if i == 0 {
				sanitize.Fprintf(w, "%s\t%s\n", row.head, line)
			} else {
				sanitize.Fprintf(w, "\t%s\n", strings.TrimLeft(line, "\t"))
			}
		}
	}
	switch {
	case r.Now != nil && r.Now.Note != "":
		sanitize.Fprintf(w, "now\t%s (%s)\n", inEffect(*r.Now), r.Now.Note)
	case r.Now != nil:
		sanitize.Fprintf(w, "now\t%s\n", inEffect(*r.Now))
	case r.Lacks != "":
		sanitize.Fprintf(w, "now\tnot to be read: %s\n", r.Lacks)
	}
	return w.Flush()
}

// row is a line of what there is to know of a knob.
type row struct{ head, text string }

func cardOf(f knob.Facts) (rows []row) {
	add := func(head, text string) {
		if text != "" {
			rows = append(rows, row{head, text})
		}
	}
	add("knob", f.Name+": "+f.Title)
	add("instead", f.Instead)
	add("values", f.Values)
	add("scope", string(f.Scope))
	add("helps", helps(f))
	add("needs", f.Needs)
	add("risk", f.Risk)
	add("evidence", fmt.Sprintf("%s: %s", f.Grade, f.Evidence))
	add("undo", f.Undo)
	add("never", f.ManualOnly)
	return rows
}

// MarkdownKnobs prints docs/knobs.md.
func MarkdownKnobs(out io.Writer) error {
	var b strings.Builder
	b.WriteString("# Knobs\n\n" +
		"Look up what a knob changes, what it may help, its risk and how it is undone. [Tuning](tuning.md) explains how to set and undo knobs. " +
		"`venturi knob ls --md` writes this page; a test keeps it so.\n\n" +
		"The grade says how good the published evidence is. None of it was measured on your host: `venturi tune --prove` does that.\n\n" +
		"| grade | evidence |\n|---|---|\n| A | repeated runs with their spread |\n| B | a number by a weak method |\n" +
		"| C | a recommendation without a number |\n| D | sources that contradict each other |\n")
	cell := func(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
	for _, s := range table.Sections() {
		if len(s.Entries) == 0 {
			continue
		}
		sanitize.Fprintf(&b, "\n## %s\n\n| knob | what it is | scope | helps | evidence |\n|---|---|---|---|---|\n", s.Title)
		for _, e := range s.Entries {
			sanitize.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %s | %s |\n", e.Name, anchor(e.Name), cell(e.Title), e.Scope, helps(e.Facts), e.Grade)
		}
		for _, e := range s.Entries {
			sanitize.Fprintf(&b, "\n### %s\n\n%s.\n\n", e.Name, e.Title)
			for _, row := range cardOf(e.Facts)[1:] {
				sanitize.Fprintf(&b, "- **%s**: %s\n", row.head, row.text)
			}
		}
	}
	_, err := sanitize.Fprint(out, sanitize.Safe(WrapPage(b.String())))
	return err
}

// anchor is what a heading with a name is linked by.
func anchor(name string) string { return strings.NewReplacer(".", "", "+", "").Replace(name) }

// KnobReading is a knob with its value on what was named.
type KnobReading struct {
	knob.Facts
	Section string        `json:"section"`
	Target  *knob.Target  `json:"target,omitempty"` // nil: it was not read
	Now     *knob.Reading `json:"now,omitempty"`
	Lacks   string        `json:"lacks,omitempty"` // why it could not be read there

	Denied bool `json:"-"` // only root could
}

func PrintKnobsJSON(out io.Writer, list []KnobReading) error {
	return PrintJSON(out, map[string]any{"version": JSONVersion, "knobs": list})
}

// TellDenied says which knobs only root can read.
func TellDenied(w io.Writer, list []KnobReading) {
	var names []string
	for _, r := range list {
		if r.Denied {
			names = append(names, r.Name)
		}
	}
	if len(names) > 0 && os.Geteuid() != 0 {
		sanitize.Fprintf(w, "venturi: only root can read %s\n", strings.Join(names, ", "))
	}
}

func PrintReadings(out io.Writer, list []KnobReading, notes bool) error {
	w := columns(out)
	for _, r := range list {
		sanitize.Fprintf(w, "%s\t%s\n", r.Name, inEffect(*r.Now))
	}
	if err := w.Flush(); err != nil || !notes {
		return err
	}
	for _, r := range list {
		if r.Now.Note != "" {
			sanitize.Fprintf(out, "  %s: %s\n", r.Name, indentWrapped(r.Now.Note, "    "))
		}
	}
	return nil
}

// inEffect is a value, and what is in effect if that is another one.
func inEffect(r knob.Reading) string {
	if r.Effective != "" && r.Effective != r.Value {
		return r.Value + ", in effect " + r.Effective
	}
	return r.Value
}

// plannedKnob is what would be written for one knob, for machines.
type plannedKnob struct {
	Knob   string       `json:"knob"`
	Target knob.Target  `json:"target,omitzero"`
	Now    knob.Reading `json:"now"`
	Value  string       `json:"value"`
	Writes []jsonWrite  `json:"writes"`
}

func plannedKnobs(planned []tune.Planned) []plannedKnob {
	list := []plannedKnob{}
	for _, p := range planned {
		list = append(list, plannedKnob{p.Assignment.Knob.Name, p.Assignment.Target, p.Now, p.Assignment.Value, plannedWrites(p)})
	}
	return list
}

// PrintPlan prints what would be written, cell by cell.
func PrintPlan(out io.Writer, planned []tune.Planned, asJSON bool) error {
	if asJSON {
		return PrintJSON(out, map[string]any{"version": JSONVersion, "knobs": plannedKnobs(planned)})
	}
	total := tune.Total(planned)
	for _, c := range total {
		if _, err := sanitize.Fprint(out, sanitize.Safe(c.Diff())); err != nil {
			return err
		}
	}
	if len(total) == 0 {
		_, err := sanitize.Fprintf(out, "nothing would be changed\n")
		return err
	}
	return nil
}
