package experiment

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// A stream beside a load can have a share of its maximum as its rate. The maximum is a cell
// of its own. Each series measures it first, all arms interleaved as in any other cell, so
// that every arm has the share of what it carried itself in the same minute.

// cellOrder is a random order of the cells, with those that are the maximum of others first.
func (r *Run) cellOrder() []int {
	order := r.rng.Perm(len(r.Plan.Cells))
	slices.SortStableFunc(order, func(a, b int) int { return r.rank(a) - r.rank(b) })
	return order
}

// rank is 0 for the maximum of another cell, and 1 for all others.
func (r *Run) rank(cell int) int {
	name := r.Plan.Cells[cell].Name
	if slices.ContainsFunc(r.Plan.Cells, func(c result.Cell) bool { return c.Background != nil && c.Background.Maximum == name }) {
		return 0
	}
	return 1
}

// withMaximums adds to cells that are to be measured on those that hold their maximum.
func (r *Run) withMaximums(open []string) []string {
	for _, c := range r.Plan.Cells {
		if b := c.Background; b != nil && b.Maximum != "" && slices.Contains(open, c.Name) && !slices.Contains(open, b.Maximum) {
			open = append(open, b.Maximum)
		}
	}
	return open
}

// setShares gives each arm of a plan the rate of its background, and takes the arms out whose
// maximum could not be measured.
func (r *Run) setShares(ctx context.Context, plan *load.Plan, series int, cell result.Cell, arms []int) error {
	b := cell.Background
	if b == nil || b.Share == 0 {
		return nil
	}
	for i, arm := range arms {
		rate := b.Share * r.maximum(b, series, r.Plan.Arms[arm].Name)
		plan.Arms[i].BackgroundRate = rate
		if rate > 0 {
			continue
		}
		dropArm(plan, i)
		if err := r.recordSlice(ctx, series, cell, arms, load.SliceResult{Arm: i, Start: time.Now(), Err: errNoMaximum}); err != nil {
			return err
		}
	}
	return nil
}

var errNoMaximum = errors.New("the maximum that the background stream has a share of could not be measured")

// maximum is what an arm carried of the stream in a series, as its rate is counted; 0: nothing.
func (r *Run) maximum(b *result.BackgroundLoad, series int, arm string) float64 {
	var rates []float64
	for _, s := range r.rec.Slices {
		if t := s.Stream; t != nil && s.Series == series && s.Cell == b.Maximum && s.Arm == arm && t.RateNs > 0 {
			rates = append(rates, float64(t.RateMessages)/float64(t.RateNs)*1e9)
		}
	}
	if len(rates) == 0 {
		return 0
	}
	rate := stats.Median(rates)
	if l, err := load.Find(b.Load); err == nil && l.RateUnit() == "bits" {
		rate *= 8 * float64(b.Size)
	}
	return rate
}

// dropArm takes an arm out of the schedule.
func dropArm(plan *load.Plan, arm int) {
	for i, round := range plan.Schedule {
		plan.Schedule[i] = slices.DeleteFunc(round, func(a int) bool { return a == arm })
	}
}
