package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

func knobList(out, say io.Writer) *cobra.Command {
	var (
		t                target
		section          string
		asJSON, markdown bool
	)
	cmd := &cobra.Command{
		Use:   "ls [NAME]",
		Short: "List the knobs, or describe one",
		Long: `List what can be tuned, on what target, with the present value there, and what it may help.
With a NAME, describe one: its values, risk, prerequisites, evidence with its
source, and how it is undone. The grade of evidence:

  A  repeated runs with their spread
  B  a number, by a weak method
  C  a recommendation without a number
  D  sources contradict each other`,
		Example: `  venturi knob ls
  venturi knob ls --section device --dev eth0
  venturi knob ls net.backlog`,
		Args: atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			to, err := t.read()
			if err != nil {
				return err
			}
			list, err := listed(args, section, to)
			switch {
			case err != nil:
				return err
			case markdown:
				return markdownKnobs(out)
			case asJSON:
				err = printKnobsJSON(out, list)
			case len(args) == 1:
				return printKnob(out, list[0]) // which says so itself
			default:
				err = printKnobs(out, list)
			}
			tellDenied(say, list)
			return err
		},
	}
	t.flags(cmd.Flags())
	var names []string
	for _, s := range table.Sections() {
		names = append(names, s.Name)
	}
	cmd.Flags().StringVar(&section, "section", "", "only one section: "+strings.Join(names, ", "))
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON, with all that is known of each")
	cmd.Flags().BoolVar(&markdown, "md", false, "print the whole table as Markdown")
	cmd.MarkFlagsMutuallyExclusive("json", "md")
	return cmd
}

// listed are the knobs to show: one, those of a section, or all.
func listed(names []string, section string, t knob.Target) ([]reading, error) {
	list := []reading{}
	for _, s := range table.Sections() {
		for _, e := range s.Entries {
			if section != "" && s.Name != section || len(names) == 1 && e.Name != names[0] {
				continue
			}
			list = append(list, readKnob(e, s.Name, t))
		}
	}
	if len(list) == 0 && len(names) == 1 {
		_, err := findKnob(names[0])
		return nil, err
	}
	if len(list) == 0 {
		return nil, verr.New(verr.Usage, "cannot list section "+section, "there is none of that name, or it is empty", "see which there are with: venturi knob ls --help")
	}
	return list, nil
}

func printKnobs(out io.Writer, list []reading) error {
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

// printKnob tells all of one knob.
func printKnob(out io.Writer, r reading) error {
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

// markdownKnobs prints docs/knobs.md.
func markdownKnobs(out io.Writer) error {
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
	_, err := sanitize.Fprint(out, sanitize.Safe(wrapPage(b.String())))
	return err
}

// anchor is what a heading with a name is linked by.
func anchor(name string) string { return strings.NewReplacer(".", "", "+", "").Replace(name) }
