package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/result"
)

// writeMarkdown prints the view as Markdown: what the table prints, with no
// column left out.
func writeMarkdown(w io.Writer, rec *result.Record, s *analysis.Summary, opt Options) error {
	return markdownView(w, newView(rec, s, opt))
}

func markdownView(w io.Writer, v *view) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "# %s\n\n", escape(v.title))
	for _, f := range v.facts {
		fmt.Fprintf(out, "- **%s**: %s\n", f[0], escape(f[1]))
	}
	for _, b := range v.banners {
		fmt.Fprintf(out, "\n> **%s**\n", escape(b))
	}
	for _, b := range v.blocks {
		fmt.Fprintf(out, "\n## %s\n\n", escape(b.name))
		if b.about != "" {
			fmt.Fprint(out, escape(b.about))
			if b.floor != "" {
				fmt.Fprintf(out, "; %s", escape(b.floor))
			}
			fmt.Fprint(out, "\n\n")
		}
		var heads, rules []string
		for _, c := range b.columns {
			heads = append(heads, c.head)
			if c.left {
				rules = append(rules, "---")
			} else {
				rules = append(rules, "---:")
			}
		}
		markdownRow(out, heads)
		fmt.Fprintf(out, "|%s|\n", strings.Join(rules, "|"))
		for _, row := range b.rows {
			markdownRow(out, row)
		}
		if b.under != "" {
			fmt.Fprintf(out, "\n%s\n", escape(b.under))
		}
	}
	if len(v.closing) > 0 {
		fmt.Fprint(out, "\n## In short\n\n")
	}
	for _, line := range v.closing {
		fmt.Fprintf(out, "- %s\n", escape(line))
	}
	if len(v.notes)+len(v.remarks) > 0 {
		fmt.Fprint(out, "\n## Notes\n\n")
	}
	for i, n := range v.notes {
		fmt.Fprintf(out, "- (%d) %s\n", i+1, escape(n))
	}
	for _, r := range v.remarks {
		fmt.Fprintf(out, "- %s\n", escape(r))
	}
	return out.Flush()
}

func markdownRow(out io.Writer, row []string) {
	for _, text := range row {
		fmt.Fprintf(out, "| %s ", escape(text))
	}
	fmt.Fprintln(out, "|")
}

var escaper = strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", noBreak, " ")

func escape(s string) string { return escaper.Replace(s) }
