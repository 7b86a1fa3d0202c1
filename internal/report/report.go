// Package report prints a record: one renderer a file, one line in [formats].
// A report needs nothing but the record, so it can be made at any later time.
//
// The terminal table is the product's face. It is written for someone who has
// read no manual: every figure has its unit, every verdict its words, and what
// limits a figure stands in a note below it.
package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/result"
)

// Options of [Write].
type Options struct {
	Format string // a name of [Formats]; "": table
	Style  string // "": ours; "qperf": as qperf prints its results
	Width  int    // of the terminal, columns; 0: 120
	// Verbose shows CPU time by class and by core, and what the meters counted,
	// below the figures of a table. The other formats always hold these.
	Verbose bool
	// AccelStats shows what became of the packets of paths with a fast path. For
	// programs it always does.
	AccelStats bool
	// Figure is the one that the format svg draws: a name of [Figures], and of a
	// load behind a slash where there are several. "": the first.
	Figure string
}

// renderer prints a record with its summary.
type renderer func(w io.Writer, rec *result.Record, s *analysis.Summary, opt Options) error

// format is one way to print.
type format struct {
	name    string
	summary string
	render  renderer
}

// formats are all renderers, in the order of --help.
var formats = []format{
	{"table", "for a terminal", writeTable},
	{"md", "Markdown, the same content", writeMarkdown},
	{"html", "a page with figures that needs no network and no script", writeHTML},
	{"svg", "one figure: see --figure", writeSVG},
	{"csv", "one line for each path and load, base units", writeCSV},
	{"json", "everything, versioned, base units", writeJSON},
	{"prom", "OpenMetrics, for Prometheus", writeOpenMetrics},
	{"benchstat", "one line for each series, for golang.org/x/perf/cmd/benchstat", writeBenchstat},
}

// styles print in the manner of another tool, for scripts that read it.
var styles = []format{
	{"qperf", "as `qperf -vu -ub` prints", writeQperf},
}

// defaultWidth is how wide a table may get where nothing is known.
const defaultWidth = 120

// Formats names the formats, the default first.
func Formats() []string { return names(formats) }

// Styles names the styles.
func Styles() []string { return names(styles) }

func names(table []format) []string {
	var out []string
	for _, f := range table {
		out = append(out, f.name)
	}
	return out
}

// Write prints the report of rec. Errors: an unknown format or style, a record
// without a plan ([analysis.ErrNoPlan]), or what w returned.
func Write(w io.Writer, rec *result.Record, opt Options) error {
	render, err := choose(opt)
	if err != nil {
		return err
	}
	s, err := analysis.Analyze(rec, analysis.Options{})
	if err != nil {
		return fmt.Errorf("analyse record: %w", err)
	}
	if opt.Width <= 0 {
		opt.Width = defaultWidth
	}
	if err := render(w, rec, s, opt); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func choose(opt Options) (renderer, error) {
	table, name := formats, opt.Format
	if opt.Style != "" {
		if name != "" && name != formats[0].name {
			return nil, fmt.Errorf("choose report: style %s has no format %s", opt.Style, name)
		}
		table, name = styles, opt.Style
	} else if name == "" {
		name = formats[0].name
	}
	for _, f := range table {
		if f.name == name {
			return f.render, nil
		}
	}
	return nil, fmt.Errorf("choose report: no format or style %q, there are: %s",
		name, strings.Join(append(Formats(), Styles()...), ", "))
}
