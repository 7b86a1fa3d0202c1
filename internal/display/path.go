package display

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// textWidth keeps a line of the list of paths below 120 columns.
const textWidth = 72

func PrintPaths(out io.Writer, all []PathInfo) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	sanitize.Fprintf(w, "PATH\tOVERHEAD\tHERE\tWHAT IT IS, WHO WIRES IT SO, WHAT IT NEEDS\n")
	unknown := false
	for _, p := range all {
		unknown = unknown || p.Supported == unknownSupport
		sanitize.Fprintf(w, "%s\t%d B\t%s\t%s\n", p.Name, p.Overhead, p.Supported, wrapCell(p.Summary))
		sanitize.Fprintf(w, "\t\t\tlike %s\n", wrapCell(p.Analogue))
		if p.needs.nonEmpty() {
			sanitize.Fprintf(w, "\t\t\tneeds %s\n", wrapCell(p.needs.text(packages)))
		}
	}
	if err := w.Flush(); err != nil || !unknown {
		return err
	}
	_, err := sanitize.Fprintf(out, "\n?  could not be told: ask as root\n")
	return err
}

// wrapCell wraps a text between words, for the last column of the list.
func wrapCell(text string) sanitize.Safe {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		word = sanitize.Text(word)
		switch {
		case i == 0:
		case width+1+len(word) > textWidth:
			b.WriteString("\n\t\t\t")
			width = 0
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += len(word)
	}
	return sanitize.Safe(b.String())
}

func PrintPath(out io.Writer, p PathInfo) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	sanitize.Fprintf(w, "path\t%s: %s\nlike\t%s\n", p.Name, p.Summary, p.Analogue)
	if p.OptionText != "" {
		sanitize.Fprintf(w, "with\t%s\n", p.OptionText)
	}
	sanitize.Fprintf(w, "overhead\t%d B a packet\nneeds\t%s\nhere\t%s\n", p.Overhead, p.needs.text(feature.Need.String), supportText(p.Supported))
	for i, o := range p.Options {
		head := ""
		if i == 0 {
			head = "options"
		}
		sanitize.Fprintf(w, "%s\t%s=%s\t%s%s\n", head, o.Name, o.Value, o.Help, defaultText(o))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if p.Lacks != nil {
		sanitize.Fprintln(out)
		verr.Print(out, p.Lacks)
	}
	return nil
}

func supportText(here string) string {
	if here == unknownSupport {
		return "could not be told: ask as root"
	}
	return here
}

func defaultText(o PathOption) string {
	switch {
	case o.Required:
		return " (required)"
	case o.Default == "":
		return ""
	}
	return fmt.Sprintf(" (default %s)", o.Default)
}

// MarkdownPaths prints docs/paths.md.
func MarkdownPaths(out io.Writer, all []PathInfo) error {
	var b strings.Builder
	b.WriteString("# Paths\n\n" +
		"Choose what to compare with the host network. Give a path by its name, and its options behind a colon: `vxlan:vni=42,tunnels=5`. " +
		"The same path can be given several times with other options. `venturi path show NAME` says what this host lacks for one. " +
		"`venturi path ls --md` writes this page; a test keeps it so.\n\n" +
		"Overhead is what a path adds to each packet on the wire, with its default options.\n\n" +
		"Paths are compared with `host`, the lab's own wire, or with the path that `--baseline` names. Where several paths are given and all " +
		"are `attach`, the first is the baseline, and no lab is started.\n\n" +
		"| path | what it is | used by | overhead | needs |\n|---|---|---|---|---|\n")
	for _, p := range all {
		sanitize.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %d B | %s |\n", p.Name, anchor(p.Name), p.Summary, p.Analogue, p.Overhead, p.needs.text(feature.Need.String))
	}
	for _, p := range all {
		sanitize.Fprintf(&b, "\n## %s\n\n", p.Name)
		if len(p.Options) == 0 {
			b.WriteString("No options.\n")
			continue
		}
		b.WriteString("| option | default | what it does |\n|---|---|---|\n")
		for _, o := range p.Options {
			preset := o.Default
			if o.Required {
				preset = "required"
			}
			sanitize.Fprintf(&b, "| `%s=%s` | %s | %s |\n", o.Name, strings.ReplaceAll(o.Value, "|", "\\|"), preset, o.Help)
		}
	}
	_, err := sanitize.Fprint(out, sanitize.Safe(WrapPage(b.String())))
	return err
}
