package fastpath_test

import (
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
)

// However often all flows are deleted, and however long that takes, the other sweeps start every few ticks.
func TestSweepSchedule(t *testing.T) {
	const ticks = 600
	for _, flushEvery := range []time.Duration{time.Hour, 7 * time.Second, 5 * time.Second, 3 * time.Second} {
		for _, steps := range []int{1, 10, 100} {
			starts := append(fastpath.RegularSweeps(flushEvery, steps, ticks), ticks)
			for i, last := 0, 0; i < len(starts); i, last = i+1, starts[i] {
				if gap := starts[i] - last; gap > fastpath.SweepEvery+1 {
					t.Errorf("all are deleted each %v, sweeps of %d steps: none starts for %d ticks after %d", flushEvery, steps, gap, last)
					break
				}
			}
		}
	}
}
