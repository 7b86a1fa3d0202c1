package search

import (
	"context"
	"slices"
)

const (
	// A knob is dropped when even so many standard errors above its estimate lies
	// below so many times what a proof could show. An effect twice as large as that
	// is dropped once in some hundred times.
	screenErrors = 2.0
	screenWorth  = 1.6

	harmErrors = 3.0 // and as harmful, when so many above it is beyond the margin

	rivalZ   = 1.5 // who is measured on, and anew when another one was added
	acceptZ  = 2.5 // who is added
	certainZ = 4.0 // without more pairs
	// coupleZ is by how much a couple must look better than one of its knobs.
	coupleZ = 1.5
)

// worth is the smallest effect that is looked for in a metric, as a logarithm.
func (r *run) worth(m int) float64 { return max(log1p(r.Effect), r.noise[m].mde) }

// hopeful tells whether a contest may still become a proof. Of harm, the first few
// pairs say too little: the noise is known to within a fifth or so, and there are
// many things in which what mends a fault may look worse by chance.
func (r *run) hopeful(c *contest) bool {
	if c.broken != nil || r.harms(c) != "" {
		return false
	}
	for m, metric := range r.Metrics {
		if metric.Role == Goal && c.gain(m)+screenErrors*r.error(c, m) > screenWorth*r.worth(m) {
			return true
		}
	}
	return false
}

// harms tells what a contest makes worse, if it was measured often enough to say so.
func (r *run) harms(c *contest) string {
	if c.pairs < screenPairs[1] {
		return ""
	}
	return r.harm(c, harmErrors)
}

// hopeless tells whether to drop an arm, and notes if that is for harm.
func (r *run) hopeless(a *arm) bool {
	if r.hopeful(a.last) {
		return false
	}
	a.harm = r.harms(a.last)
	return true
}

// reserve is how many pairs the steps after going forward want, for a set of a size.
func reserve(set int) int { return fullPairs + set*screenPairs[2] }

// reservedPairs is how many of what is left a stage must not take. To look at what would go on
// top of a set is worth less than to confirm that: a right set of which the last pairs
// cannot tell yet is lost.
func reservedPairs(stage Stage, set int) int {
	if stage == StageForward {
		return reserve(set) + confirmMost - fullPairs
	}
	return reserve(set)
}

// screen measures arms on top of a state, all in turn so that what the machine does
// meanwhile falls on all, and gives those that are not dropped.
func (r *run) screen(ctx context.Context, stage Stage, on Subset, arms []*arm) ([]*arm, error) {
	alive := slices.Clone(arms)
	for _, a := range alive {
		a.last = r.contest(on, r.add(on, a.knobs...))
		if len(on) == 0 {
			a.best = a.last
		}
	}
	for _, pairs := range screenPairs[:2] {
		keep := reservedPairs(stage, len(on)+1)
		if r.pairsLeft()-keep < len(alive) {
			break
		}
		if err := r.interleave(ctx, stage, alive, pairs, keep); err != nil {
			return nil, err
		}
		r.pool()
		alive = slices.DeleteFunc(alive, r.hopeless)
	}
	return alive, nil
}

// pool estimates the noise from all that was measured against the untouched state:
// the gate alone is some fifth off.
func (r *run) pool() {
	for m := range r.noise {
		groups := [][]float64{r.gateContest.gains[m]}
		for _, a := range r.arms {
			if a.best != nil {
				groups = append(groups, a.best.gains[m])
			}
		}
		r.noise[m].set(spread(groups...))
	}
}

// interleave brings the contests of arms to a number of pairs, each a pair at a time, as
// long as more is left than is to be kept.
func (r *run) interleave(ctx context.Context, stage Stage, arms []*arm, pairs, keep int) error {
	for n := 1; n <= pairs; n++ {
		for _, i := range r.rng.Perm(len(arms)) {
			if r.pairsLeft() <= keep {
				return nil
			}
			if err := r.measure(ctx, stage, arms[i].last, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// strongest gives the goal for which a contest speaks most.
func (r *run) strongest(c *contest) (metric int, z float64) {
	metric = -1
	for m := range r.Metrics {
		if r.Metrics[m].Role != Goal {
			continue
		}
		if now := r.z(c, m); metric < 0 || now > z {
			metric, z = m, now
		}
	}
	return metric, z
}

// forward adds knobs to the untouched state, the best first, and gives the set and
// for which metric each knob of it was added.
func (r *run) forward(ctx context.Context, alive []*arm) (Subset, map[int][]int, error) {
	var set Subset
	claims := map[int][]int{}
	for again := 0; ; {
		best, metric, err := r.pick(ctx, set, alive)
		if err != nil {
			return nil, nil, err
		}
		if best == nil {
			// What was dropped may have been hidden by what has been mended since.
			others := r.excluded(set)
			if again++; len(set) == 0 || again > 1 || len(others) == 0 || r.pairsLeft() < reservedPairs(StageForward, len(set)+1)+screenPairs[0]*len(others) {
				return set, claims, nil
			}
			if alive, err = r.screen(ctx, StageForward, set, others); err != nil {
				return nil, nil, err
			}
			if len(alive) == 0 {
				return set, claims, nil
			}
			continue
		}
		set = r.add(set, best.knobs...)
		for _, k := range best.knobs {
			claims[k] = r.claims(best, metric)
		}
		rivals := slices.DeleteFunc(slices.Clone(alive), func(a *arm) bool {
			_, z := r.strongest(a.last)
			return z < rivalZ || r.isIncluded(a, set)
		})
		if alive, err = r.screen(ctx, StageForward, set, rivals); err != nil {
			return nil, nil, err
		}
	}
}

// claims are the goals that an arm is added for. Each knob of a couple may be what
// helps any of them.
func (r *run) claims(a *arm, metric int) []int {
	claims := []int{metric}
	for m := range r.Metrics {
		if len(a.knobs) > 1 && m != metric && r.Metrics[m].Role == Goal {
			claims = append(claims, m)
		}
	}
	return claims
}

// isIncluded tells whether adding an arm to a state would change nothing.
func (r *run) isIncluded(a *arm, set Subset) bool { return slices.Equal(r.add(set, a.knobs...), set) }

// excluded are the arms that would change a state, and are not known to do harm.
func (r *run) excluded(set Subset) []*arm {
	return slices.DeleteFunc(slices.Clone(r.arms), func(a *arm) bool {
		return r.isIncluded(a, set) || a.last.broken != nil
	})
}

// pick chooses the arm to add, and the goal that it is added for; nil for none. Who
// does not look like much is measured on only when nobody else is left, for the
// first of a set.
func (r *run) pick(ctx context.Context, set Subset, alive []*arm) (*arm, int, error) {
	likely := slices.DeleteFunc(slices.Clone(alive), func(a *arm) bool {
		_, z := r.strongest(a.last)
		return z < rivalZ
	})
	best, metric, err := r.pickOf(ctx, likely)
	if best != nil || err != nil || len(set) > 0 {
		return best, metric, err
	}
	return r.pickOf(ctx, slices.DeleteFunc(slices.Clone(alive), func(a *arm) bool { return slices.Contains(likely, a) }))
}

func (r *run) pickOf(ctx context.Context, alive []*arm) (*arm, int, error) {
	for len(alive) > 0 {
		best := slices.MaxFunc(alive, func(a, b *arm) int {
			_, x := r.strongest(a.last)
			_, y := r.strongest(b.last)
			return sign(x - y)
		})
		metric, z := r.strongest(best.last)
		if z < certainZ && best.last.pairs < screenPairs[2] && r.pairsLeft() > reserve(len(best.last.to)) {
			if err := r.measure(ctx, StageForward, best.last, screenPairs[2]); err != nil {
				return nil, 0, err
			}
			continue // it may not be the best any more
		}
		if z >= acceptZ && best.last.gain(metric) >= r.worth(metric)/2 && !r.hopeless(best) {
			best = r.simplest(best, alive)
			metric, _ = r.strongest(best.last)
			return best, metric, nil
		}
		alive = slices.DeleteFunc(alive, func(a *arm) bool { return a == best })
	}
	return nil, 0, nil
}

// simplest gives in place of a couple the best of its knobs, unless the couple does
// clearly more.
func (r *run) simplest(couple *arm, alive []*arm) *arm {
	best, most := couple, 0.0
	_, both := r.strongest(couple.last)
	for _, a := range alive {
		_, z := r.strongest(a.last)
		if len(a.knobs) < len(couple.knobs) && slices.Contains(couple.knobs, a.knobs[0]) && z >= acceptZ && z > both-coupleZ && z > most {
			best, most = a, z
		}
	}
	return best
}
