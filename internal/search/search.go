// Package search finds the smallest set of knobs that helps. It is pure: what
// a state of the knobs does is measured by a [Bench], and all chance comes from a
// seed.
//
// # The steps
//
// The gate measures the untouched state against itself: how noisy each metric is,
// and which effects can be shown at all. Screening measures each knob against that
// state with few pairs, and only ever drops. Going forward, the best knob is added,
// and its rivals are measured anew on top of it; what was dropped gets one more
// chance there, for one fault may hide another. Going backward, each knob of the
// set is taken away again, one at a time: what is not missed goes. What remains is
// confirmed against the untouched state.
//
// # Why few knobs are kept by mistake
//
// What screening and going forward believe is believed by nobody else: a knob is
// kept only by what going backward measures, in fresh pairs, of the one metric that
// it was chosen for. That test is the exact one of signed ranks, which flips the
// signs of pairs and assumes nothing but that two equal states are exchangeable. It
// looks at fixed numbers of pairs, each look with the share of the chance of error
// that O'Brien and Fleming's bounds spend there; and the knobs of the set share
// that chance.
package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Subset is the knobs that are on, by their index, ascending. None: untouched.
type Subset []int

// add is the state with some knobs on, and those off that exclude them.
func (p *Problem) add(s Subset, knobs ...int) Subset {
	var next Subset
	for _, k := range s {
		excluded := slices.ContainsFunc(knobs, func(n int) bool {
			return n == k || p.Knobs[n].Group != "" && p.Knobs[n].Group == p.Knobs[k].Group
		})
		if !excluded {
			next = append(next, k)
		}
	}
	next = append(next, knobs...)
	slices.Sort(next)
	return next
}

// remove is the state with one knob off.
func (s Subset) remove(knob int) Subset {
	return slices.DeleteFunc(slices.Clone(s), func(k int) bool { return k == knob })
}

// Role says what a metric decides.
type Role string

// The roles.
const (
	Goal     Role = "goal"    // a knob is kept for what it does to this
	Guard    Role = "guard"   // must be shown not to become worse by more than the margin
	Watched  Role = "watched" // must not be shown to become worse by more than the margin
	Reported Role = "shown"   // decides nothing
)

// Metric is one figure of a state.
type Metric struct {
	Name          string
	LowerIsBetter bool
	Role          Role
	Margin        float64 // of a goal, guard or watched metric: 0.03 is 3 %
}

// Factor is one thing that can be on or off. Of the knobs of a group, not "", at
// most one is on: they are values of one setting.
type Factor struct{ Name, Group string }

// Problem is what to search in.
type Problem struct {
	Metrics  []Metric
	Troubles []string // what else must not grow, as shares of the packets: retransmits, drops
	Knobs    []Factor
	Couples  [][]int // knobs that may help only together, by their index
}

// Sample is what was measured of one state once.
type Sample struct {
	Values   []float64 // by metric, each above 0; NaN: could not be measured
	Troubles []float64 // by trouble, from 0 to 1
	Void     string    // why it must not be used, such as that the CPU was throttled
}

// Bench measures states.
type Bench interface {
	// Pair measures two states, one right after the other, in this order. Error: a
	// [BrokenError] for a state in which nothing can be measured; anything else
	// ends the search.
	Pair(ctx context.Context, first, second Subset) (a, b Sample, err error)
}

// BrokenError tells that a state does not work at all.
type BrokenError struct {
	State Subset
	Err   error
}

func (e *BrokenError) Error() string { return e.Err.Error() }
func (e *BrokenError) Unwrap() error { return e.Err }

// Options of a search.
type Options struct {
	Seed     uint64
	Pairs    int           // at most; 0: 2000
	Budget   time.Duration // by Now; 0: as long as it takes
	Now      func() time.Time
	PairTime time.Duration // foretold for a pair; 0: it is not known before some were measured
	// Effect is the smallest effect worth the while: 0.02. MDE is what the gate
	// must be able to show of a goal, or else it refuses: 0.1.
	Effect, MDE float64
	Watch       func(Progress) // nil: nobody
}

// Stage is a step of the search.
type Stage string

// The stages, in order.
const (
	StageGate     Stage = "gate"
	StageScreen   Stage = "screen"
	StageForward  Stage = "forward"
	StageBackward Stage = "backward"
	StageConfirm  Stage = "confirm"
)

// Progress is where a search stands.
type Progress struct {
	Stage     Stage
	From      Subset // that are being measured
	To        Subset
	Pairs     int           // measured until now
	Remaining time.Duration // of the budget; 0: none was set
}

// Defaults.
const (
	defaultPairs  = 2000
	defaultEffect = 0.02
	defaultMDE    = 0.1
)

// run is a search that goes on.
type run struct {
	Problem
	Options
	bench Bench
	rng   *rand.Rand
	start time.Time
	used  int // pairs, void ones among them
	void  int
	noise []Noise
	noisy []bool // by metric: a goal that the gate found to be too noisy

	longest     time.Duration // of the pairs
	gateContest *contest      // the gate's
	arms        []*arm
	out         *Result
}

// arm is knobs that are tried together: one, or a couple.
type arm struct {
	knobs []int
	last  *contest // the last that was measured of it
	best  *contest // against the untouched state
	harm  string   // what it was dropped for, when it seemed to make that worse
}

// Do searches. The result is there, as far as it came, also with an error; a
// [NoisyError] tells that the gate refused, a [ShortError] that the budget is not
// enough for every knob.
func Do(ctx context.Context, p Problem, b Bench, o Options) (*Result, error) {
	if o.Pairs == 0 {
		o.Pairs = defaultPairs
	}
	if o.Effect == 0 {
		o.Effect = defaultEffect
	}
	if o.MDE == 0 {
		o.MDE = defaultMDE
	}
	r := &run{Problem: p, Options: o, bench: b, rng: rand.New(rand.NewPCG(o.Seed, 0x7475_6e65)), out: &Result{}}
	if o.Now != nil {
		r.start = o.Now()
	}
	for k := range p.Knobs {
		r.arms = append(r.arms, &arm{knobs: []int{k}})
	}
	for _, c := range p.Couples {
		r.arms = append(r.arms, &arm{knobs: c})
	}
	set, proofs, err := r.steps(ctx)
	r.report(set, proofs, err)
	return r.out, err
}

// steps goes through the stages, and gives the set that was confirmed, with what
// going backward measured of each knob of it and of those that it took out.
func (r *run) steps(ctx context.Context) (Subset, map[int]*proof, error) {
	if err := r.enough(); err != nil {
		return nil, nil, err
	}
	if err := r.gate(ctx); err != nil {
		return nil, nil, err
	}
	if err := r.enough(); err != nil {
		return nil, nil, err
	}
	alive, err := r.screen(ctx, StageScreen, nil, r.arms)
	if err != nil {
		return nil, nil, err
	}
	set, claims, err := r.forward(ctx, alive)
	if err != nil {
		return nil, nil, err
	}
	set, proofs, err := r.backward(ctx, set, claims)
	if err == nil && len(set) > 0 {
		set, err = r.confirm(ctx, set, proofs)
	}
	if err != nil {
		return nil, proofs, err
	}
	return set, proofs, r.suspects(ctx)
}

// pairsLeft is how many pairs there is budget for.
func (r *run) pairsLeft() int {
	left := r.Pairs - r.used
	if each := r.pairTime(); each > 0 && r.Budget > 0 && r.Now != nil {
		left = min(left, int(r.timeLeft()/each))
		if r.timeLeft() < r.longest*3/2 {
			return 0 // the next one may be as long, and longer still
		}
	}
	return max(0, left)
}

// pairTime is how long a pair takes: as those did that were measured, and before that
// as it was foretold. 0: nobody knows.
func (r *run) pairTime() time.Duration {
	if r.used == 0 || r.Now == nil {
		return r.PairTime
	}
	return r.Now().Sub(r.start) / time.Duration(r.used)
}

// log1p is the logarithm of a ratio that is given as a share.
func log1p(share float64) float64 { return math.Log1p(share) }
