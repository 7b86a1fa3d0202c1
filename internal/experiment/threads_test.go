package experiment

import (
	"slices"
	"testing"
)

// Both agents get the number of threads, and the cores for them where there are several.
func TestThreadsOfSeries(t *testing.T) {
	for threads, cores := range map[int][]int{0: nil, 1: nil, 2: {2, 4}} {
		a := &agents{t: t, served: map[uint64]bool{}}
		r, rec := newRun(a, 1)
		r.Plan.Cells[0].Threads, r.ThreadCPUs = threads, [2][]int{{2, 4}, {3, 5}}
		if err := r.Do(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		if p := a.plans[0]; p.Threads != threads || !slices.Equal(p.ClientCPUs, cores) || len(p.ServerCPUs) != len(cores) {
			t.Errorf("%d threads: the plan has %d on cores %v and %v", threads, p.Threads, p.ClientCPUs, p.ServerCPUs)
		}
	}
}
