package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/venturi-net/venturi/internal/stats"
)

// contest is what was measured of one state against another.
type contest struct {
	from, to Subset
	pairs    int
	gains    [][]float64 // by metric, of each pair: log of how much better to is
	growth   [][]float64 // by trouble, of each pair: how much more of it to has
	broken   error       // why to cannot be measured at all
}

func (r *run) contest(from, to Subset) *contest {
	return &contest{from: from, to: to, gains: make([][]float64, len(r.Metrics)), growth: make([][]float64, len(r.Troubles))}
}

// most void pairs, as a share of all, before the machine is called unfit.
const (
	mostVoid  = 0.5
	leastVoid = 10
)

// measure adds pairs to a contest, until it has so many or there is no budget for
// another. A state that is broken gets no more.
func (r *run) measure(ctx context.Context, stage Stage, c *contest, pairs int) error {
	for c.pairs < pairs && c.broken == nil && r.pairsLeft() > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.Watch != nil {
			r.Watch(Progress{Stage: stage, From: c.from, To: c.to, Pairs: r.used, Remaining: r.timeLeft()})
		}
		if err := r.pair(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// pair measures one pair, in random order.
func (r *run) pair(ctx context.Context, c *contest) error {
	first, second := c.from, c.to
	turned := r.rng.IntN(2) == 1
	if turned {
		first, second = second, first
	}
	before := r.timeLeft()
	a, b, err := r.bench.Pair(ctx, first, second)
	r.used++
	r.longest = max(r.longest, before-r.timeLeft())
	var broken *BrokenError
	if errors.As(err, &broken) && len(broken.State) > 0 {
		c.broken = broken.Err
		return nil
	}
	if err != nil {
		return err
	}
	if why := cmp.Or(a.Void, b.Void); why != "" {
		if r.void++; r.void > leastVoid && float64(r.void) > mostVoid*float64(r.used) {
			return &VoidError{r.void, r.used, why}
		}
		return nil
	}
	if turned {
		a, b = b, a
	}
	c.pairs++
	for m, metric := range r.Metrics {
		gain := math.Log(b.Values[m] / a.Values[m])
		if math.IsNaN(gain) || math.IsInf(gain, 0) {
			continue
		}
		if metric.LowerIsBetter {
			gain = -gain
		}
		c.gains[m] = append(c.gains[m], gain)
	}
	for t := range r.Troubles {
		c.growth[t] = append(c.growth[t], b.Troubles[t]-a.Troubles[t])
	}
	return nil
}

// VoidError tells that too many pairs could not be used: the machine is not there to
// be measured now.
type VoidError struct {
	Void, Used int    // pairs
	Reason     string // the last of them
}

func (e *VoidError) Error() string {
	return fmt.Sprintf("%d of %d pairs could not be used: %s", e.Void, e.Used, e.Reason)
}

// gain is the estimate of a metric: Hodges and Lehmann's, which a few wild pairs
// do not move; of few pairs, of which a single wild one is a few, the median.
func (c *contest) gain(m int) float64 {
	switch n := len(c.gains[m]); {
	case n == 0:
		return 0
	case n < screenPairs[1]:
		return stats.Median(c.gains[m])
	}
	est, _, _, _ := stats.HodgesLehmann(c.gains[m], 0.95)
	return est
}

// medianError is how much larger the error of a median of four is than that of a mean.
const medianError = 1.1

// error is the standard error of the estimate: by the noise that the gate found,
// or by the contest's own where that is larger.
func (r *run) error(c *contest, m int) float64 {
	n := len(c.gains[m])
	if n == 0 {
		return math.Inf(1)
	}
	s := r.noise[m].sigma * medianError
	if n >= screenPairs[1] {
		s = max(r.noise[m].sigma, spread(c.gains[m]))
	}
	return s / math.Sqrt(float64(n))
}

// z is the estimate in standard errors.
func (r *run) z(c *contest, m int) float64 {
	e := r.error(c, m)
	if e == 0 {
		return 100 * c.gain(m) // no noise at all
	}
	return c.gain(m) / e
}

// harm tells what a contest makes worse by more than the margin, judged with
// some certainty in standard errors; "" for nothing.
func (r *run) harm(c *contest, sure float64) string {
	if c.broken != nil {
		return "nothing gets through: " + c.broken.Error()
	}
	for m, metric := range r.Metrics {
		// Of a metric that few pairs give, such as a percentile of few round trips, the gate
		// may know no noise at all, and then one wild pair is much.
		few := len(c.gains[m]) < min(c.pairs, screenPairs[1])
		if metric.Role != Reported && !few && c.gain(m)+sure*r.error(c, m) < -r.margin(m) {
			return metric.Name
		}
	}
	for t, name := range r.Troubles {
		if troubleGrew(c.growth[t], troubleSure) {
			return name
		}
	}
	return ""
}

// What a trouble may grow by, as a share of the packets, and how sure one must be
// that it does by more to give a knob up.
const (
	troubleMargin = 0.001
	troubleSure   = 0.005
)

// troubleGrew tells whether a trouble is shown, with a chance of error, to grow by more than
// nothing to speak of.
func troubleGrew(growth []float64, alpha float64) bool {
	if len(growth) == 0 || stats.Median(growth) <= troubleMargin {
		return false
	}
	above := make([]float64, len(growth))
	for i, g := range growth {
		above[i] = g - troubleMargin
	}
	return signedRankP(above) <= alpha
}

// margin is by how much a metric may become worse, as a logarithm: what is asked
// for, or what can be told at all.
func (r *run) margin(m int) float64 {
	return max(log1p(r.Metrics[m].Margin), 1.5*r.noise[m].mde)
}
