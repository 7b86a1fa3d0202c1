package fastpath_test

import (
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
)

// However often all flows are deleted, and however long that takes, the other sweeps start every few ticks.
func TestSweepSchedule(t *testing.T) {
	const ticks, second = 600, time.Second
	for _, flushEvery := range []time.Duration{time.Hour, 7 * second, 5 * second, 3 * second, second, second / 10} {
		for _, steps := range []int{1, 10, 100} {
			starts := append(fastpath.RegularSweeps(flushEvery, steps, ticks), ticks)
			for i, last := 0, 0; i < len(starts); i, last = i+1, starts[i] {
				if gap := starts[i] - last; gap > fastpath.SweepEvery+1 {
					t.Errorf("flush each %v, %d steps: no other sweep starts for %d ticks after %d", flushEvery, steps, gap, last)
					break
				}
			}
		}
	}
}
