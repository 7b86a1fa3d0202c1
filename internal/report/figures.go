package report

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
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// drawing is one figure, with the table of what it shows.
type drawing struct {
	name  string // for --figure, unique in a report: "latency/udp_lat/1"
	texts chart.Texts
	chart chart.Chart
	table block
}

// figure is a kind of figure: a file each, and a line in [figures].
type figure struct {
	name    string
	summary string
	draw    func(*result.Record, *analysis.Summary) []drawing // none where the record has nothing of it
}

// figures are all kinds, in the order of a page.
var figures = []figure{
	{"ratios", "every path to the baseline, with intervals and noise floors", ratioFigure},
	{"sizes", "figures by message size", sizeFigures},
	{"size-ratios", "ratios to the baseline by message size", sizeRatioFigures},
	{"latency", "how round-trip times are distributed", latencyFigures},
	{"cpu", "CPU time per unit of work, by class", cpuFigure},
	{"time", "how far each path was from its own median, over the run", timeFigure},
}

// Figures names the kinds of figures.
func Figures() []string {
	var out []string
	for _, f := range figures {
		out = append(out, f.name)
	}
	return out
}

// ErrNoFigure is a record that holds nothing of what a figure shows.
var ErrNoFigure = errors.New("the record has no such figure, or more than one")

// svgWidth is the width of a figure that is a file of its own, pixels.
const svgWidth = 760

// drawings are the figures of a record, or those of one kind.
func drawings(rec *result.Record, s *analysis.Summary, kind string) []drawing {
	var out []drawing
	for _, f := range figures {
		if kind == "" || f.name == kind {
			out = append(out, f.draw(rec, s)...)
		}
	}
	return out
}

// writeSVG writes one figure as a file of its own.
func writeSVG(w io.Writer, rec *result.Record, s *analysis.Summary, opt Options) error {
	name := cmp.Or(opt.Figure, figures[0].name)
	kind, _, _ := strings.Cut(name, "/")
	found := slices.DeleteFunc(drawings(rec, s, kind), func(d drawing) bool {
		return d.name != name && !strings.HasPrefix(d.name, name+"/")
	})
	if len(found) == 1 {
		out := bufio.NewWriter(w)
		if err := found[0].chart.Draw(out, chart.Sheet{Width: svgWidth, Alone: true, Notes: banners(rec, s)}); err != nil {
			return err
		}
		return out.Flush()
	}
	if len(found) == 0 {
		found = drawings(rec, s, "")
	}
	var names []string
	for _, d := range found {
		names = append(names, sanitize.Text(d.name))
	}
	if len(names) == 0 {
		return ErrNoFigure
	}
	return fmt.Errorf("%w: no single one matches %q, there are %s", ErrNoFigure, sanitize.Text(name), strings.Join(names, ", "))
}

// dropEmpty leaves out the columns in which no row has a figure.
func (b *block) dropEmpty() {
	for i := len(b.columns) - 1; i >= 0; i-- {
		if slices.ContainsFunc(b.rows, func(row []string) bool { return row[i] != noFigure }) {
			continue
		}
		b.columns = slices.Delete(b.columns, i, i+1)
		for j := range b.rows {
			b.rows[j] = slices.Delete(b.rows[j], i, i+1)
		}
	}
}
