package view

import (
	"fmt"
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

// threadNotes name the threads that had no time left. That an end of a load has none is told
// only beside a stream: without one it is what limits a load as fast as it goes.
func threadNotes(r *analysis.Row, c *analysis.Cell) []string {
	var full []string
	for _, t := range r.Threads {
		if t.Full() && (!t.Load || c.Cell.Background != nil) {
			full = append(full, fmt.Sprintf("%s (%s of a core)", ThreadName(t), unit.Percent(t.Share)))
		}
	}
	switch len(full) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("%s, %s: thread %s was full, and may limit this path", CellName(c.Cell), sanitize.Text(r.Arm.Name), full[0])}
	}
	return []string{fmt.Sprintf("%s, %s: threads %s were full, and may limit this path", CellName(c.Cell), sanitize.Text(r.Arm.Name), strings.Join(full, ", "))}
}
