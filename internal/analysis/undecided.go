package analysis

import (
	"slices"

	"github.com/venturi-net/venturi/internal/stats"
)

// moreHelps are the reasons for want of a verdict that more series can take away.
var moreHelps = []stats.Reason{stats.TooWide, stats.TooFew, stats.BelowHolm, stats.BelowNoise, stats.BadFloor}

// Undecided names the cells in which a path has no verdict yet, and may get one if
// more is measured.
func (s *Summary) Undecided() []string {
	var out []string
	for _, c := range s.Cells {
		if slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Judged != nil && slices.Contains(moreHelps, r.Judged.Reason) }) {
			out = append(out, c.Cell.Name)
		}
	}
	return out
}
