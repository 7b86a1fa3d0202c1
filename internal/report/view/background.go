package view

import (
	"fmt"
	"maps"
	"slices"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// backgroundName names what ran beside a load: "udp_bw 1 B at 100k/s".
func backgroundName(b *result.BackgroundLoad) string {
	name := sanitize.Text(b.Load) + " " + unit.MessageSize(b.Size)
	if b.Flows > 1 {
		name += fmt.Sprintf(" x %d flows", b.Flows)
	}
	if b.Rate > 0 {
		name += " at " + unit.ExactCount(b.Rate) + "/s"
	}
	if b.Share > 0 {
		name += " at " + unit.ExactPercent(b.Share) + " of each path's maximum"
	}
	if b.Cores == "other" {
		name += " on other cores"
	}
	return name
}

// backgroundRate is what of it arrived.
func backgroundRate(b *result.BackgroundLoad, r *analysis.Row) string {
	switch {
	case r.Background == nil || r.Background.Rate == 0:
		return unit.NoFigure
	case b.InBits():
		return unit.Bits(r.Background.Rate)
	}
	return unit.Rate(r.Background.Rate, "msg")
}

// fullCores are the cores that had no time left.
func fullCores(r *analysis.Row) (names []string) {
	if r.CPU == nil {
		return nil
	}
	for _, core := range slices.SortedFunc(maps.Keys(r.CPU.ByCore), ByCoreNumber) {
		if r.CPU.ByCore[core] >= analysis.FullCore {
			names = append(names, coreName(core))
		}
	}
	return names
}

// FullNames are the threads and cores of a row that had no time left: those that carry packets,
// or where there are none, the ends of a load, which as fast as it goes always have none.
func FullNames(r *analysis.Row) []string {
	var carriers, ends []string
	for _, t := range r.Threads {
		switch {
		case !t.Full():
		case t.Load:
			ends = append(ends, ThreadName(t))
		default:
			carriers = append(carriers, ThreadName(t))
		}
	}
	for _, core := range fullCores(r) {
		carriers = append(carriers, "core "+core)
	}
	if len(carriers) == 0 {
		return ends
	}
	return carriers
}
