package search

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// looks are after how many pairs a proof may be complete.
var looks = [...]int{6, 10, 16, fullPairs}

const (
	// falseAlarmRate is the chance, of one search, that going backward keeps anything that
	// does nothing.
	falseAlarmRate = 0.05
	// futile: a proof is given up when so many standard errors above its estimate
	// lies below this share of what is looked for.
	futileErrors = 2.0
	futileWorth  = 0.8
	confirmSure  = 0.05
)

// alphaSpent is how much of a chance of error may be spent when a share of all pairs is
// there: O'Brien and Fleming's bounds as Lan and DeMets have them.
func alphaSpent(alpha, share float64) float64 {
	return 2 * distuv.UnitNormal.Survival(distuv.UnitNormal.Quantile(1-alpha/2)/math.Sqrt(share))
}

// proof is what going backward measured of a knob: the set without it against the set.
type proof struct {
	*contest
	metric      int
	significant bool
}

// backward takes the knobs of a set away, one at a time and the weakest first, and
// gives what is left: the knobs that are missed.
func (r *run) backward(ctx context.Context, set Subset, claims map[int][]int) (Subset, map[int]*proof, error) {
	proofs := map[int]*proof{}
	order := slices.Clone(set)
	slices.SortStableFunc(order, func(a, b int) int { return sign(r.strength(a, claims[a][0]) - r.strength(b, claims[b][0])) })
	alpha := falseAlarmRate / float64(max(1, len(order)))
	for _, k := range order {
		p := &proof{contest: r.contest(set.remove(k), set), metric: claims[k][0]}
		proofs[k] = p
		if err := r.prove(ctx, p, claims[k], alpha); err != nil {
			return nil, proofs, err
		}
		if !p.significant {
			set = set.remove(k)
		}
	}
	return set, proofs, nil
}

// strength is what was measured of a knob when it was added.
func (r *run) strength(knob, metric int) float64 {
	best := 0.0
	for _, a := range r.arms {
		if slices.Contains(a.knobs, knob) && a.last != nil {
			best = max(best, r.z(a.last, metric))
		}
	}
	return best
}

// prove measures until a look is sure of one of the metrics, or nothing is to be
// hoped for.
func (r *run) prove(ctx context.Context, p *proof, metrics []int, alpha float64) error {
	before := 0.0
	for _, n := range looks {
		if err := r.measure(ctx, StageBackward, p.contest, n); err != nil {
			return err
		}
		if p.broken != nil {
			return p.broken // a part of what worked: no knob is to blame
		}
		if p.pairs < n {
			return nil // time is up
		}
		now := alphaSpent(alpha, float64(n)/fullPairs)
		hope := false
		for _, m := range metrics {
			if signedRankP(p.gains[m]) <= (now-before)/float64(len(metrics)) {
				p.significant, p.metric = true, m
				return nil
			}
			hope = hope || n < looks[1] || p.gain(m)+futileErrors*r.error(p.contest, m) >= futileWorth*r.worth(m)
		}
		if !hope {
			return nil
		}
		before = now
	}
	return nil
}

// confirm measures a set against the untouched state, in fresh pairs. It gives the
// set if that helps and does no harm, else none, and says why.
//
// Where the set is a single knob, going backward has measured the same two states. Those
// pairs were looked at until they showed what the knob was chosen for, so that is for the
// fresh ones to show again; but of what it leaves as it was they say as much.
func (r *run) confirm(ctx context.Context, set Subset, proofs map[int]*proof) (Subset, error) {
	c := r.contest(nil, set)
	known := r.contest(nil, set)
	if p := proofs[set[0]]; len(set) == 1 && len(p.from) == 0 {
		known = p.contest
	}
	pairs, before, unsure := fullPairs, 0.0, ""
	for {
		pairs = min(pairs, c.pairs+r.pairsLeft())
		if err := r.measure(ctx, StageConfirm, c, pairs); err != nil {
			return nil, err
		}
		last := pairs >= confirmMost || r.pairsLeft() == 0
		now := confirmSure // the last look may spend all that is left
		if !last {
			now = alphaSpent(confirmSure, float64(pairs)/confirmMost)
		}
		if unsure = r.unsure(known, c, now-before); unsure == "" || last || r.harm(c, harmErrors) != "" {
			break
		}
		pairs, before = pairs+screenPairs[1], now
	}
	r.out.Confirm = r.effects(c)
	if why := r.objection(c, unsure, set, proofs); why != "" {
		r.out.Reason = why
		return nil, nil
	}
	return set, nil
}

// unsure names the first metric that contests of the same states do not show to be no
// worse than the margin, at a level of error.
func (r *run) unsure(known, fresh *contest, alpha float64) string {
	for m, metric := range r.Metrics {
		if metric.Role != Goal && metric.Role != Guard {
			continue
		}
		all := slices.Concat(known.gains[m], fresh.gains[m])
		if lo, ok := lowerBound(all, alpha); !ok || lo < -r.margin(m) {
			return metric.Name
		}
	}
	return ""
}

// objection is what speaks against a set as a whole, of which a metric may be unsure; ""
// for nothing.
func (r *run) objection(c *contest, unsure string, set Subset, proofs map[int]*proof) string {
	if harm := r.harm(c, harmErrors); harm != "" {
		return "together they make it worse: " + harm
	}
	if unsure != "" {
		return fmt.Sprintf("together they were not shown to leave %s as good as it was", unsure)
	}
	claimed := map[int]bool{}
	for _, k := range set {
		claimed[proofs[k].metric] = true
	}
	for m := range claimed {
		if signedRankP(c.gains[m]) <= confirmSure/float64(len(claimed)) {
			return ""
		}
	}
	return fmt.Sprintf("fresh pairs did not show it again (%d of them)", c.pairs)
}

// suspects gives the knobs that look harmful as many pairs as it takes to say so,
// as far as the budget goes.
func (r *run) suspects(ctx context.Context) error {
	for _, a := range r.arms {
		if a.best == nil || a.best.broken != nil || a.best.pairs == 0 || r.harm(a.best, harmErrors) == "" {
			continue
		}
		if r.pairsLeft() < suspectPairs {
			return nil
		}
		if err := r.measure(ctx, StageConfirm, a.best, suspectPairs); err != nil {
			return err
		}
	}
	return nil
}
