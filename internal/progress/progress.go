// Package progress shows a run while it goes on: on a terminal what is being
// measured, the estimates as they narrow and the time left, redrawn in place;
// elsewhere a plain line after each series. It draws only between two series
// of a cell, never while a slice runs.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// Progress writes to one stream.
type Progress struct {
	w              io.Writer
	terminal       bool
	silent         bool // about the series
	width          int
	height         int
	lines          int // drawn, and to be drawn over
	reportedSeries int // series told of in plain lines

	estimates []string
	next      time.Time // when they may be made anew
}

// New shows progress on w; in place if w is a terminal.
func New(w io.Writer) *Progress {
	p := &Progress{w: w, width: 100, height: 24, reportedSeries: -1}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.terminal = true
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 20 && height > 2 {
			p.width, p.height = width, height
		}
	}
	return p
}

// Silent tells of steps only, in plain lines: for a check that makes many runs
// and prints a line for each.
func Silent(w io.Writer) *Progress { return &Progress{w: w, silent: true} }

// Say tells of a step that is not a series.
func (p *Progress) Say(format string, args ...any) {
	p.erase()
	text := string(sanitize.Sprintf(format, args...))
	if p.terminal {
		p.draw([]string{text + " ..."})
		return
	}
	sanitize.Fprintln(p.w, "venturi: "+text)
}

// Done takes what is drawn away, so that the report stands alone.
func (p *Progress) Done() { p.erase() }

// Event implements experiment.Watch.
func (p *Progress) Event(e experiment.Event) {
	if p.silent {
		return
	}
	plan := &e.Record.Plan
	if e.Series >= plan.Series {
		p.erase()
		return
	}
	if !p.terminal {
		p.plain(e)
		return
	}
	lines := []string{fmt.Sprintf("%s %s, now %s, %s  (Ctrl-C ends and reports)",
		bar(elapsedShare(e)), seriesText(e), plan.Cells[e.Cell].Name, remainingText(e))}
	lines = append(lines, p.estimate(e.Record)...)
	p.erase()
	p.draw(lines)
}

// analysisShare bounds how much of a run goes into estimates on the way: each
// reads the whole record, and a sweep over many sizes has one for each of them.
const analysisShare = 20

// estimate gives one line a cell, made anew as often as it is cheap.
func (p *Progress) estimate(rec *result.Record) []string {
	if s := p.analyze(rec); s != nil {
		p.estimates = estimates(s)
	}
	return p.estimates
}

// analyze analyses what there is of a record; nil: it is too soon for that, or cannot be done.
func (p *Progress) analyze(rec *result.Record) *analysis.Summary {
	start := time.Now()
	if start.Before(p.next) {
		return nil
	}
	s, err := analysis.Analyze(rec, analysis.Options{Live: true})
	p.next = time.Now().Add(analysisShare * time.Since(start))
	if err != nil {
		return nil
	}
	return s
}

func (p *Progress) plain(e experiment.Event) {
	if e.Series == p.reportedSeries {
		return
	}
	p.reportedSeries = e.Series
	sanitize.Fprintln(p.w, "venturi: "+seriesText(e)+", "+remainingText(e)+p.widest(e.Record))
}

// widest tells of the widest interval, as often as it is cheap.
func (p *Progress) widest(rec *result.Record) string {
	if s := p.analyze(rec); s != nil && s.Series >= stats.MinSeries {
		return fmt.Sprintf(", widest interval ±%.1f %%", 100*s.Worst)
	}
	return ""
}

// byTime: the plan has more series than it can come to, and its budget says how far it is.
func byTime(e experiment.Event) bool { return e.Record.Plan.UntilDecided && e.Record.Plan.Budget > 0 }

// elapsedShare is the part of the run that is over, 0 to 1.
func elapsedShare(e experiment.Event) float64 {
	switch plan := &e.Record.Plan; {
	case byTime(e):
		return max(0, 1-e.Remaining.Seconds()/plan.Budget.Seconds())
	case plan.Series > 0:
		return float64(e.Series) / float64(plan.Series)
	}
	return 0
}

func seriesText(e experiment.Event) string {
	if byTime(e) {
		return fmt.Sprintf("series %d", e.Series+1)
	}
	return fmt.Sprintf("series %d/%d", e.Series+1, e.Record.Plan.Series)
}

func remainingText(e experiment.Event) string {
	if byTime(e) {
		return "at most " + formatRemaining(e.Remaining) + " left"
	}
	return "about " + formatRemaining(e.Remaining) + " left"
}

// estimates gives one line a cell: each arm's ratio as far as it is known.
func estimates(s *analysis.Summary) []string {
	var lines []string
	for _, c := range s.Cells {
		line := fmt.Sprintf("  %-18s", c.Cell.Name)
		for _, r := range c.Rows {
			if r.Arm.Role != result.RoleBaseline && r.Ratio != nil {
				line += "  " + estimate(r)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func estimate(r analysis.Row) string {
	text := fmt.Sprintf("%s %.3f", r.Arm.Name, r.Ratio.Value)
	if half, ok := r.Ratio.HalfWidth(); ok && !r.Ratio.WithinSeries {
		text += fmt.Sprintf(" ±%.1f%%", 100*half)
	}
	return text
}

func bar(done float64) string {
	const width = 20
	full := min(width, int(done*width))
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}

func formatRemaining(d time.Duration) string { return max(d, time.Second).Round(time.Second).String() }

// draw writes lines that erase takes away again: none longer than the terminal
// is wide and not more than it is high, or they could not be counted back.
func (p *Progress) draw(lines []string) {
	if most := p.height - 1; len(lines) > most {
		lines = append(lines[:most-1:most-1], fmt.Sprintf("  ... and %d more", len(lines)-most+1))
	}
	for _, l := range lines {
		if r := []rune(l); len(r) >= p.width {
			l = string(r[:p.width-1])
		}
		sanitize.Fprintln(p.w, l)
	}
	p.lines = len(lines)
}

func (p *Progress) erase() {
	if p.terminal && p.lines > 0 {
		sanitize.Fprintf(p.w, "\x1b[%dA\x1b[J", p.lines)
	}
	p.lines = 0
}
