package experiment

import (
	"slices"
	"testing"
	"time"

	"github.com/venturi-net/venturi/result"
)

// A run until all is decided is looked at after each series at first, and less often the longer it takes.
func TestLooksOfLongRun(t *testing.T) {
	a := &agents{t: t, served: map[uint64]bool{}}
	r, rec := newRun(a, 400)
	r.Plan.Rounds, r.Plan.UntilDecided = 1, true
	var looked []int
	r.StopRule = func(*result.Record) ([]string, error) {
		looked = append(looked, len(a.plans))
		return []string{r.Plan.Cells[0].Name}, nil
	}
	if err := r.Do(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	first := []int{3, 4, 5, 6, 7, 8, 9, 10}
	if len(looked) > 100 || !slices.Equal(looked[:len(first)], first) || rec.End.Reason != result.Complete {
		t.Errorf("looked %d times, after %v; end %+v", len(looked), looked, rec.End)
	}
	for i, at := range looked[1:] {
		if gap := at - looked[i]; gap < 1 || gap > max(1, looked[i]/20) {
			t.Errorf("after %d series the next look is after %d", looked[i], at)
		}
	}
}

// What was decided since the last look is seen when the time is up.
func TestDecidedWhenTimeIsUp(t *testing.T) {
	for decidedAt, want := range map[int]string{45: result.Decided, 1000: result.OutOfBudget} {
		a := &agents{t: t, served: map[uint64]bool{}}
		r, rec := newRun(a, 400)
		r.Plan.Rounds, r.Plan.UntilDecided, r.Plan.Budget = 1, true, time.Hour
		a.onRun = func() {
			if len(a.plans) == 45 { // looks are after 44 and 46
				r.deadline = time.Now().Add(-time.Second)
			}
		}
		r.StopRule = func(*result.Record) ([]string, error) {
			if len(a.plans) >= decidedAt {
				return nil, nil
			}
			return []string{r.Plan.Cells[0].Name}, nil
		}
		if err := r.Do(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		if rec.End.Reason != want || rec.End.Series != 45 {
			t.Errorf("decided after %d: end %+v, want %s after 45", decidedAt, rec.End, want)
		}
	}
}
