package experiment

import (
	"slices"
	"time"
)

// lookSpacing bounds how often a run that goes on until all is decided is looked at: again after this
// part of what has been measured. Each look analyses the whole record, and so takes longer each time.
// What it concludes holds however often one looks, so fewer looks cost nothing but a somewhat later end.
const lookSpacing = 20

// looks tells whether the run may stop after so many series.
func (r *Run) looks(done int) bool {
	if r.StopRule == nil || done >= r.Plan.Series {
		return false
	}
	if r.Plan.UntilDecided {
		return done >= leastSeries && done >= r.looked+max(1, r.looked/lookSpacing)
	}
	return slices.Contains(r.Plan.Looks, done)
}

// look asks which cells are to be measured on after so many series.
func (r *Run) look(done int) (open []string, err error) {
	r.looked = done
	return r.StopRule(r.rec)
}

// decidedMeanwhile tells whether all has been decided in series after the last look.
func (r *Run) decidedMeanwhile(done int) (bool, error) {
	if r.StopRule == nil || !r.Plan.UntilDecided || done < leastSeries || done == r.looked {
		return false, nil
	}
	open, err := r.look(done)
	return err == nil && len(open) == 0, err
}

// outOfTime tells whether one more series would end after the deadline.
func (r *Run) outOfTime(done int) bool {
	if r.deadline.IsZero() || done == 0 {
		return false
	}
	each := time.Since(r.start) / time.Duration(done)
	if r.Plan.UntilDecided {
		each = time.Since(r.began) // the next has as many cells at most
	}
	return time.Now().Add(each * 9 / 10).After(r.deadline)
}
