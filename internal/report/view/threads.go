package view

import (
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// manyThreads is how many threads a line names.
const manyThreads = 6

// ThreadText says how much of a core the busiest threads used.
func ThreadText(r *analysis.Row) string {
	var parts []string
	for _, t := range r.Threads[:min(manyThreads, len(r.Threads))] {
		parts = append(parts, strings.ReplaceAll(ThreadName(t)+" "+unit.Percent(t.Share), " ", NoBreak))
	}
	if len(parts) == 0 {
		return unit.NoFigure
	}
	return strings.Join(parts, ", ")
}

// ThreadName is the thread's name, with its machine where there are several.
func ThreadName(t analysis.Thread) string {
	return strings.TrimSpace(sanitize.Text(t.Machine) + " " + sanitize.Text(t.Name))
}

// threadFields are columns for Markdown only, as those of CPU time are.
func threadFields(c *analysis.Cell) []field {
	if !slices.ContainsFunc(c.Rows, func(r analysis.Row) bool { return len(r.Threads) > 0 }) {
		return nil
	}
	return []field{{Column{"threads busy", true, RankMarkdownOnly}, ThreadText}}
}
