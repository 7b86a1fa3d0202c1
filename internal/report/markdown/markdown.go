// Package markdown prints a report as Markdown.
package markdown

import (
	"bufio"
	"io"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// Write prints the view as Markdown: what the table prints, with no
// column left out.
func Write(w io.Writer, rec *result.Record, s *analysis.Summary, opt view.Options) error {
	opt.Verbose = true
	opt.Width = view.DefaultWidth
	return WriteView(w, view.New(rec, s, opt))
}

func WriteView(w io.Writer, v *view.Content) error {
	out := bufio.NewWriter(w)
	sanitize.Fprintf(out, "# %s\n\n", escape(v.Title))
	for _, a := range v.Answers {
		sanitize.Fprintf(out, "- %s\n", escape(a.Sentence()))
	}
	if len(v.Answers) > 0 {
		sanitize.Fprintln(out)
	}
	for _, f := range slices.Concat(v.Machines, v.Facts) {
		sanitize.Fprintf(out, "- **%s**: %s\n", escape(f[0]), escape(f[1]))
	}
	for _, b := range v.Banners {
		sanitize.Fprintf(out, "\n> **%s**\n", escape(b))
	}
	for _, b := range v.Blocks {
		sanitize.Fprintln(out)
		if b.Name != "" {
			sanitize.Fprintf(out, "## %s\n\n", escape(b.Name))
		}
		if b.Caption != "" {
			sanitize.Fprint(out, escape(b.Caption))
			if b.Floor != "" {
				sanitize.Fprintf(out, "; %s", escape(b.Floor))
			}
			sanitize.Fprintf(out, "\n\n")
		}
		var heads, rules []string
		for _, c := range b.Columns {
			heads = append(heads, c.Head)
			if c.LeftAlign {
				rules = append(rules, "---")
			} else {
				rules = append(rules, "---:")
			}
		}
		markdownRow(out, heads)
		sanitize.Fprintf(out, "|%s|\n", strings.Join(rules, "|"))
		for _, row := range b.Rows {
			markdownRow(out, row)
		}
		if b.Footer != "" {
			sanitize.Fprintf(out, "\n%s\n", escape(b.Footer))
		}
	}
	if len(v.Notes)+len(v.Remarks) > 0 {
		sanitize.Fprintf(out, "\n## Notes\n\n")
	}
	for i, n := range v.Notes {
		sanitize.Fprintf(out, "- (%d) %s\n", i+1, escape(n))
	}
	for _, r := range v.Remarks {
		sanitize.Fprintf(out, "- %s\n", escape(r))
	}
	return out.Flush()
}

func markdownRow(out io.Writer, row []string) {
	for _, text := range row {
		sanitize.Fprintf(out, "| %s ", escape(text))
	}
	sanitize.Fprintf(out, "|\n")
}

// escape makes a text of a view Markdown that shows it.
func escape(s string) string { return sanitize.Markdown(view.PlainSpaces(s)) }
