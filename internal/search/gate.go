package search

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/stats"
)

// Numbers of pairs.
const (
	gatePairs    = 16 // that the gate takes
	fullPairs    = 24 // of a proof
	confirmMost  = 40 // of a confirmation that cannot tell yet
	suspectPairs = 16 // that it takes to call one of many knobs harmful
)

// screenPairs are after how many pairs a knob may be dropped. The last number is
// for those that are about to be added.
var screenPairs = [...]int{4, 8, 16}

const (
	// powerSum is how many standard errors large an effect must be to be seen with
	// a chance of 80 % at an error of 5 %.
	powerSum = 2.8
	// gateSure: the same state twice must differ so surely to be called biased. One
	// gate in a hundred is refused for nothing.
	gateSure = 0.01
)

// Noise is what the gate found of a metric.
type Noise struct {
	Metric string  `json:"metric"`
	Spread float64 `json:"spread"` // of the ratio within a pair, as a share
	MDE    float64 `json:"mde"`    // smallest effect that a proof sees with a chance of 80 %
	Bias   float64 `json:"bias"`   // of the second of two equal states, as a share
	Out    string  `json:"out,omitempty"`

	sigma, mde float64 // as logarithms
}

// set takes a standard deviation of the log ratios of pairs.
func (n *Noise) set(sigma float64) {
	n.sigma, n.mde = sigma, powerSum*sigma/math.Sqrt(fullPairs)
	n.Spread, n.MDE = math.Expm1(n.sigma), math.Expm1(n.mde)
}

// NoisyError is the gate's refusal.
type NoisyError struct {
	Reasons []string
	MDE     float64 // that would have had to be allowed, as a share; 0: no such would have helped
}

func (e *NoisyError) Error() string { return strings.Join(e.Reasons, "; ") }

// ShortError tells that the budget is not enough for every knob to be tried.
type ShortError struct {
	Knobs           int
	Need, Available int           // pairs
	Least           time.Duration // budget that would be enough; 0: a pair was not timed
}

func (e *ShortError) Error() string {
	return fmt.Sprintf("%d knobs want %d pairs of measurements at the least, and there is budget for %d", e.Knobs, e.Need, e.Available)
}

// Least is how many pairs a search wants at the least: those of the gate, so that
// each of some arms is tried once, and so that one of them can be proven.
func Least(arms int) int { return gatePairs + arms*screenPairs[0] + reserve(1) }

// enough tells whether the budget lasts until every arm was tried once.
func (r *run) enough() error {
	least := Least(len(r.arms))
	need := max(least-r.used, least-gatePairs) // void pairs of the gate do not count
	if left := r.pairsLeft(); left < need {
		return &ShortError{Knobs: len(r.Knobs), Need: need, Available: left, Least: time.Duration(least) * r.pairTime()}
	}
	return nil
}

// gate measures the untouched state against itself.
func (r *run) gate(ctx context.Context) error {
	c := r.contest(nil, nil)
	if err := r.measure(ctx, StageGate, c, gatePairs); err != nil {
		return err
	}
	if c.pairs < gatePairs {
		return r.enough() // it is not
	}
	r.gateContest = c
	why := r.judgeGate(c)
	for m, metric := range r.Metrics {
		if metric.Role == Goal && !r.noisy[m] {
			return nil
		}
	}
	if len(why) > 0 {
		return &NoisyError{why, r.quietest()}
	}
	return nil
}

// quietest is the smallest effect that could be shown of any goal that is nothing but
// too noisy; 0 if there is none.
func (r *run) quietest() (mde float64) {
	for m, n := range r.noise {
		if r.noisy[m] && (mde == 0 || n.MDE < mde) {
			mde = n.MDE
		}
	}
	return mde
}

// judgeGate notes the noise, and tells which goals cannot be judged. A metric that
// cannot decides nothing any more; but it may still be so much worse that it shows.
func (r *run) judgeGate(c *contest) (why []string) {
	r.Metrics = slices.Clone(r.Metrics)
	r.noise, r.noisy = make([]Noise, len(r.Metrics)), make([]bool, len(r.Metrics))
	r.out.Noise = r.noise
	for m := range r.Metrics {
		metric, n := &r.Metrics[m], &r.noise[m]
		n.Metric, n.Bias = metric.Name, math.Expm1(math.Abs(c.gain(m)))
		n.set(spread(c.gains[m]))
		switch {
		case len(c.gains[m]) < gatePairs:
			n.Out = fmt.Sprintf("%s could not be measured in %d of %d pairs", metric.Name, gatePairs-len(c.gains[m]), gatePairs)
		case stats.SignedRank(c.gains[m]) < gateSure/float64(len(r.Metrics)):
			n.Out = fmt.Sprintf("%s differs by %.1f %% between two runs of the same state", metric.Name, 100*n.Bias)
		case n.MDE > r.MDE:
			r.noisy[m] = metric.Role == Goal
			n.Out = fmt.Sprintf("%s is so noisy (%.1f %% from run to run) that nothing below %.1f %% could be shown", metric.Name, 100*n.Spread, 100*n.MDE)
		}
		if n.Out == "" || metric.Role == Reported {
			continue
		}
		if metric.Role == Goal {
			why = append(why, n.Out)
		}
		if !r.noisy[m] { // of a noisy goal, larger effects show all the same
			metric.Role = Watched
		}
	}
	return why
}

// timeLeft is what is left of the budget in time.
func (r *run) timeLeft() time.Duration {
	if r.Budget == 0 || r.Now == nil {
		return 0
	}
	return max(0, r.Budget-r.Now().Sub(r.start))
}
