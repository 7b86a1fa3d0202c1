package pace

import (
	"math"
	"testing"
	"time"
)

func TestTimetable(t *testing.T) {
	for _, c := range []struct {
		rate        float64
		head, timed time.Duration
		first, all  int
	}{
		{1000, 2 * time.Millisecond, 100 * time.Millisecond, 2, 102},
		{1000, 0, 5 * time.Millisecond, 0, 5},
		{1, 2 * time.Millisecond, 5 * time.Second, 1, 6},
		{3, 0, time.Second, 0, 3},
		{10000, 2 * time.Millisecond, time.Minute, 20, 600020},
		{7, 0, time.Millisecond, 0, 1},
	} {
		table := NewTimetable(c.rate, c.head, c.timed)
		if table.Head != c.first || table.Total != c.all {
			t.Errorf("%v a second, %v and %v: %d and %d requests, want %d and %d", c.rate, c.head, c.timed, table.Head, table.Total, c.first, c.all)
		}
		last := table.Due(table.Total - 1)
		if want := float64(c.all-1) / c.rate * 1e9; math.Abs(float64(last)-want) > 1 {
			t.Errorf("%v a second: the last is due at %d, want %v", c.rate, last, want)
		}
	}
}

// The rate holds on a sender that sleeps too long: it sends what became due.
func TestDueBy(t *testing.T) {
	table := NewTimetable(1000, 0, time.Second)
	for now, want := range map[int64]int{0: 1, 999_999: 1, 1_000_000: 2, 500_500_000: 501, 2_000_000_000: 1000} {
		if got := table.dueBy(now); got != want {
			t.Errorf("%d messages due after %d ns, want %d", got, now, want)
		}
	}
}
