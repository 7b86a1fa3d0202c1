package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// outcome is what became of a path in one cell.
type outcome struct {
	cell    *analysis.Cell
	row     *analysis.Row
	verdict string
}

// verdictOrder is the order in which an answer counts the verdicts; the worst
// outcome is one of the first that there is.
var verdictOrder = []string{
	string(stats.Slower), costlier, string(stats.CannotTell), "not judged", "not compared", string(stats.Equivalent),
	string(stats.Faster), cheaper, rateNotHeld, "failed",
}

// answer is the answer for one path, in one sentence: its name, and what is so.
type answer struct{ Path, Text string }

// Sentence is the answer as one line of text.
func (a answer) Sentence() string { return strings.TrimRight(a.Path, " ") + " " + a.Text }

// Answers are the answers in plain text, a sentence a path.
func Answers(s *analysis.Summary) []string {
	var out []string
	for _, a := range answers(s, false) {
		out = append(out, PlainSpaces(a.Sentence()))
	}
	return out
}

// answers say how each path compares with the baseline, with the load in which it
// does worst.
func answers(s *analysis.Summary, brief bool) []answer {
	paths := comparedPaths(s)
	indent := 0
	for _, path := range paths {
		indent = max(indent, Cells.StringWidth(sanitize.Text(path))+len(": "))
	}
	var out []answer
	for _, path := range paths {
		name, all := sanitize.Text(path), outcomes(s, path)
		switch {
		case len(all) > 1:
			out = append(out, answer{Pad(name+": ", min(indent, maxAnswerIndent), true), tally(all) + worst(all, s, brief)})
		case all[0].row.Ratio == nil:
			out = append(out, answer{name + ": ", fmt.Sprintf("%s (%s)", all[0].verdict, measured(all[0].cell, s))})
		default:
			out = append(out, answer{name + " ", all[0].sentence(s, brief)})
		}
	}
	return out
}

const (
	// maxAnswerIndent is how far answers are indented below each other, columns: a
	// long name shall not push the others' away.
	maxAnswerIndent = 14
	// briefWidth is the width of a terminal below which answers are shortened, so
	// that most stay on one line.
	briefWidth = 100
)

// comparedPaths are the paths that an answer is about. What leads through an
// emulated CPU has none; a banner says so.
func comparedPaths(s *analysis.Summary) (paths []string) {
	for _, c := range s.Cells {
		for _, r := range c.Rows {
			if r.Arm.Role == "" && !r.Arm.Emulated {
				paths = Union(paths, []string{r.Arm.Name})
			}
		}
	}
	return paths
}

func outcomes(s *analysis.Summary, path string) (all []outcome) {
	for i := range s.Cells {
		c := &s.Cells[i]
		if r := c.Row(path); r != nil {
			all = append(all, outcome{c, r, plainVerdict(r)})
		}
	}
	return all
}

// sentence is the answer of a path that was measured in one load.
func (o outcome) sentence(s *analysis.Summary, brief bool) string {
	verdict := o.verdict
	if j := o.row.Judged; j != nil && j.Verdict == stats.CannotTell && j.Detectable > 0 {
		verdict += ", a difference below " + unit.Percent(j.Detectable) + " would not show"
	}
	return fmt.Sprintf("is %s: %s", o.times(s, brief), verdict)
}

// times is the ratio as a multiple: "1.18x [1.15, 1.21] the host network's TCP latency".
func (o outcome) times(s *analysis.Summary, brief bool) string {
	text := unit.ShortRatio(o.row.Ratio.Value) + "x "
	if r := o.row.Ratio; !r.Open {
		text += strings.ReplaceAll(fmt.Sprintf("[%s, %s] ", unit.ShortRatio(r.Lo), unit.ShortRatio(r.Hi)), ", ", ","+NoBreak)
	}
	owner := sanitize.Text(o.cell.Baseline) + "'s"
	if o.cell.Baseline == "host" && !brief {
		owner = "the host network's"
	}
	return text + owner + " " + measured(o.cell, s)
}

// tally counts the verdicts of a path: "slower in 3 of 4 loads, same in 1".
func tally(all []outcome) string {
	counts := map[string]int{}
	for _, o := range all {
		counts[o.verdict]++
	}
	what := casesName(all)
	if len(counts) == 1 && len(all) == 2 {
		return fmt.Sprintf("%s in both %s", all[0].verdict, what)
	}
	if len(counts) == 1 {
		return fmt.Sprintf("%s in all %d %s", all[0].verdict, len(all), what)
	}
	var parts []string
	for _, v := range verdictOrder {
		switch {
		case counts[v] == 0:
		case len(parts) == 0:
			parts = append(parts, fmt.Sprintf("%s in %d of %d %s", v, counts[v], len(all), what))
		default:
			parts = append(parts, fmt.Sprintf("%s in %d", v, counts[v]))
		}
	}
	return strings.Join(parts, ", ")
}

// casesName is what a path was measured in: several loads, or one at several sizes.
func casesName(all []outcome) string {
	loads, sizes := map[string]bool{}, map[int]bool{}
	for _, o := range all {
		loads[o.cell.Cell.Load], sizes[o.cell.Cell.Size] = true, true
	}
	switch {
	case len(loads) == len(all):
		return "loads"
	case len(loads) == 1 && len(sizes) == len(all):
		return "sizes"
	}
	return "cases"
}

// worst names the outcome that is worst for the path, with its ratio.
func worst(all []outcome, s *analysis.Summary, brief bool) string {
	for _, verdict := range verdictOrder {
		var found *outcome
		for i := range all {
			o := &all[i]
			if o.verdict == verdict && o.row.Ratio != nil && (found == nil || o.badness() > found.badness()) {
				found = o
			}
		}
		if found != nil {
			return "; worst " + found.times(s, brief)
		}
	}
	return ""
}

// badness is how many times worse the path is than the baseline.
func (o *outcome) badness() float64 {
	if v := o.row.Ratio.Value; !o.cell.Cell.Metric.LowerIsBetter() && v > 0 {
		return 1 / v
	}
	return o.row.Ratio.Value
}

// measured names what a cell measures, with its size and flows where another
// cell measures the same at others.
func measured(c *analysis.Cell, s *analysis.Summary) string {
	name := measurement(c.Cell)
	alike := slices.ContainsFunc(s.Cells, func(o analysis.Cell) bool {
		return o.Cell.Name != c.Cell.Name && measurement(o.Cell) == name
	})
	if !alike {
		return name
	}
	name += " at " + unit.MessageSize(c.Cell.Size)
	if c.Cell.Flows > 1 {
		name += fmt.Sprintf(" with %d flows", c.Cell.Flows)
	}
	if c.Cell.Batch > 1 {
		name += fmt.Sprintf(" and %d messages a call", c.Cell.Batch)
	}
	return name
}

// measurement is a metric in the words of the field.
func measurement(c result.Cell) string {
	name := "message rate"
	switch c.Metric {
	case result.OneWay:
		name = "latency"
	case result.RoundTrip:
		name = "round trip"
	case result.CPUPerPacket, result.CPUPerMessage, result.CPUPerGB:
		name = "CPU time"
	case result.Transactions:
		name = "request rate"
	case result.Connections:
		name = "connection rate"
	case result.Bandwidth:
		name = "throughput"
	}
	if b := c.Background; b != nil {
		name += " beside " + sanitize.Text(b.Load)
	}
	return strings.ToUpper(sanitize.Text(c.Transport)) + " " + name
}
