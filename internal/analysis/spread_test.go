package analysis_test

import (
	"math"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
)

// Jain's index is of what flows carried over a series: flows that take turns are fair.
func TestSpread(t *testing.T) {
	rec := recordtest.Make(recordtest.Truth{Seed: 1, Series: 6, Rounds: 4, Noise: recordtest.Quiet,
		Arms: []recordtest.Arm{recordtest.Host(), recordtest.Copy(), recordtest.Path("vxlan", 1.3)}, Cells: recordtest.Curve()})
	for i := range rec.Slices {
		s := &rec.Slices[i]
		switch {
		case s.Arm == "vxlan":
			s.Stream.PerFlow = []int64{0, 100, 100, 200}
		case s.Round%2 == 0:
			s.Stream.PerFlow = []int64{0, 10, 0, 10}
		default:
			s.Stream.PerFlow = []int64{10, 0, 10, 0}
		}
	}
	for arm, want := range map[string]analysis.Spread{"host": {Jain: 1, Lowest: 1, Highest: 1}, "vxlan": {Jain: 2.0 / 3, Lowest: 0, Highest: 2}} {
		got := row(t, analyze(t, rec, analysis.Options{}), "udp_bw/1", arm).Spread
		if got == nil || math.Abs(got.Jain-want.Jain) > 1e-9 || got.Lowest != want.Lowest || got.Highest != want.Highest {
			t.Errorf("%s: %+v, want %+v", arm, got, want)
		}
	}
}
