package view

import (
	"fmt"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// emulation says above everything what was measured on emulated CPUs, and what
// it is good for. Formats without banners have a column or a key for it.
func emulation(rec *result.Record, s *analysis.Summary) []string {
	var out []string
	if s.Emulated {
		out = append(out, "EMULATED: software plays the CPU of this machine. Its figures are those of no real machine; only the ratios between its paths say something.")
	}
	var paths []string
	for _, a := range rec.Plan.Arms {
		if a.Emulated {
			paths = append(paths, sanitize.Text(a.Name))
		}
	}
	switch len(paths) {
	case 0:
		return out
	case 1:
		return append(out, fmt.Sprintf("EMULATED PATH: %s leads through a machine whose CPU is emulated. It takes no verdict: its ratios are shown, and nothing is concluded from them.", paths[0]))
	}
	return append(out, fmt.Sprintf("EMULATED PATHS: %s lead through machines whose CPUs are emulated. They take no verdict: their ratios are shown, and nothing is concluded from them.",
		strings.Join(paths, ", ")))
}

// SplitEmulated separates the rows that may be compared from those that may not, because a
// machine that their path leads through is emulated.
func SplitEmulated(rows []analysis.Row) (alike, foreign []analysis.Row) {
	for _, r := range rows {
		if r.Emulated == analysis.EmulatedPath {
			foreign = append(foreign, r)
		} else {
			alike = append(alike, r)
		}
	}
	return alike, foreign
}
