// Package figure chooses what of a record is drawn; package chart draws it. A kind of
// figure is one file and one line in [kinds].
package figure

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/chart"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// Drawing is one figure, with the table of what it shows.
type Drawing struct {
	name  string // for --figure, unique in a report: "latency/udp_lat/1"
	Texts chart.Texts
	Chart chart.Chart
	Table view.Block
}

// kind is a kind of figure: a file each, and a line in [kinds].
type kind struct {
	name    string
	summary string
	draw    func(*result.Record, *analysis.Summary) []Drawing // none where the record has nothing of it
}

// kinds are all of them, in the order of a page.
var kinds = []kind{
	{"ratios", "every path to the baseline, with intervals and noise floors", ratioFigure},
	{"sizes", "figures by message size", sizeFigures},
	{"size-ratios", "ratios to the baseline by message size", sizeRatioFigures},
	{"load-latency", "round trips by how much of its maximum each path carries", loadLatencyFigures},
	{"latency", "how round-trip times are distributed", latencyFigures},
	{"cpu", "CPU time per unit of work, by class", cpuFigure},
	{"threads", "how much of a core each thread used", threadsFigure},
	{"time", "how far each path was from its own median, over the run", timeFigure},
}

// Kinds names the kinds of figures.
func Kinds() []string {
	var out []string
	for _, f := range kinds {
		out = append(out, f.name)
	}
	return out
}

// ErrNoFigure: a record has not exactly one figure of a name.
var ErrNoFigure = errors.New("no single figure matches")

// svgWidth is the width of a figure that is a file of its own, pixels.
const svgWidth = 760

// Drawings are the figures of a record, or those of one kind.
func Drawings(rec *result.Record, s *analysis.Summary, kind string) []Drawing {
	var out []Drawing
	for _, f := range kinds {
		if kind == "" || f.name == kind {
			out = append(out, f.draw(rec, s)...)
		}
	}
	return out
}

// Write writes one figure as a file of its own.
func Write(w io.Writer, rec *result.Record, s *analysis.Summary, opt view.Options) error {
	name := cmp.Or(opt.Figure, kinds[0].name)
	kind, _, _ := strings.Cut(name, "/")
	found := slices.DeleteFunc(Drawings(rec, s, kind), func(d Drawing) bool {
		return d.name != name && !strings.HasPrefix(d.name, name+"/")
	})
	if len(found) == 1 {
		out := bufio.NewWriter(w)
		if err := found[0].Chart.Draw(out, chart.Sheet{Width: svgWidth, Standalone: true, Notes: view.Banners(rec, s)}); err != nil {
			return err
		}
		return out.Flush()
	}
	if len(found) == 0 {
		found = Drawings(rec, s, "")
	}
	var names []string
	for _, d := range found {
		names = append(names, sanitize.Text(d.name))
	}
	if len(names) == 0 {
		return fmt.Errorf("%w %q: the record has none", ErrNoFigure, sanitize.Text(name))
	}
	return fmt.Errorf("%w %q: the record has %s", ErrNoFigure, sanitize.Text(name), strings.Join(names, ", "))
}
