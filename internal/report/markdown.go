package report

import (
	"bufio"
	"io"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// writeMarkdown prints the view as Markdown: what the table prints, with no
// column left out.
func writeMarkdown(w io.Writer, rec *result.Record, s *analysis.Summary, opt Options) error {
	opt.Verbose = true
	return markdownView(w, newView(rec, s, opt))
}

func markdownView(w io.Writer, v *view) error {
	out := bufio.NewWriter(w)
	sanitize.Fprintf(out, "# %s\n\n", escape(v.title))
	for _, f := range v.facts {
		sanitize.Fprintf(out, "- **%s**: %s\n", escape(f[0]), escape(f[1]))
	}
	for _, b := range v.banners {
		sanitize.Fprintf(out, "\n> **%s**\n", escape(b))
	}
	for _, b := range v.blocks {
		sanitize.Fprintln(out)
		if b.name != "" {
			sanitize.Fprintf(out, "## %s\n\n", escape(b.name))
		}
		if b.caption != "" {
			sanitize.Fprint(out, escape(b.caption))
			if b.floor != "" {
				sanitize.Fprintf(out, "; %s", escape(b.floor))
			}
			sanitize.Fprintf(out, "\n\n")
		}
		var heads, rules []string
		for _, c := range b.columns {
			heads = append(heads, c.head)
			if c.leftAlign {
				rules = append(rules, "---")
			} else {
				rules = append(rules, "---:")
			}
		}
		markdownRow(out, heads)
		sanitize.Fprintf(out, "|%s|\n", strings.Join(rules, "|"))
		for _, row := range b.rows {
			markdownRow(out, row)
		}
		if b.footer != "" {
			sanitize.Fprintf(out, "\n%s\n", escape(b.footer))
		}
	}
	if len(v.closing) > 0 {
		sanitize.Fprintf(out, "\n## In short\n\n")
	}
	for _, line := range v.closing {
		sanitize.Fprintf(out, "- %s\n", escape(line))
	}
	if len(v.notes)+len(v.remarks) > 0 {
		sanitize.Fprintf(out, "\n## Notes\n\n")
	}
	for i, n := range v.notes {
		sanitize.Fprintf(out, "- (%d) %s\n", i+1, escape(n))
	}
	for _, r := range v.remarks {
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
func escape(s string) string { return sanitize.Markdown(plainSpaces(s)) }
