// Package report prints a record: a format is a package below, and one line in [formats].
// A report needs nothing but the record, so it can be made at any later time.
package report

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/benchstat"
	"github.com/venturi-net/venturi/internal/report/csv"
	"github.com/venturi-net/venturi/internal/report/figure"
	"github.com/venturi-net/venturi/internal/report/html"
	"github.com/venturi-net/venturi/internal/report/markdown"
	"github.com/venturi-net/venturi/internal/report/openmetrics"
	"github.com/venturi-net/venturi/internal/report/qperf"
	"github.com/venturi-net/venturi/internal/report/table"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/result"
)

// renderer prints a record with its summary.
type renderer func(w io.Writer, rec *result.Record, s *analysis.Summary, opt view.Options) error

// format is one way to print.
type format struct {
	name    string
	summary string
	render  renderer
}

// formats are all renderers, in the order of --help.
var formats = []format{
	{"table", "for a terminal", table.Write},
	{"md", "Markdown, the same content", markdown.Write},
	{"html", "a page with figures that needs no network and no script", html.Write},
	{"svg", "one figure: see --figure", figure.Write},
	{"csv", "one line for each path and load, base units", csv.Write},
	{"json", "everything, versioned, base units", writeJSON},
	{"prom", "OpenMetrics, for Prometheus", openmetrics.Write},
	{"benchstat", "one line for each series, for golang.org/x/perf/cmd/benchstat", benchstat.Write},
}

// styles print in the manner of another tool, for scripts that read it.
var styles = []format{
	{"qperf", "as `qperf -vu -ub` prints", qperf.Write},
}

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
func Write(w io.Writer, rec *result.Record, opt view.Options) error {
	render, err := choose(opt)
	if err != nil {
		return err
	}
	s, err := analysis.Analyze(rec, analysis.Options{})
	if err != nil {
		return fmt.Errorf("analyse record: %w", err)
	}
	if opt.Width <= 0 {
		opt.Width = view.DefaultWidth
	}
	err = render(w, rec, s, opt)
	if err == nil || errors.Is(err, figure.ErrNoFigure) {
		return err
	}
	return fmt.Errorf("write report: %w", err)
}

func choose(opt view.Options) (renderer, error) {
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
