package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// stakes are the shares of its capital that a bettor risks on a series. All of their capitals are
// averaged, so that no single stake must be right.
var stakes = []float64{0.5, 0.95}

// anytime returns an interval that holds however often it is looked at, and whatever is
// concluded from a look: a confidence sequence.
//
// It is the set of ratios that a betting game has not refuted. Against each ratio plays one
// bettor who bets, before each series, that it comes out higher, and one who bets that it comes
// out lower. Under the ratio, a series is as likely above as below it by the same amount, because
// the order of the arms is random and both have their own sockets. So no bettor gains on average,
// and by Ville's inequality the chance that their capital ever grows by 1/alpha is alpha. This is
// the e-test that assumes nothing but a random order (arXiv 2512.04366), with a series as the
// unit: within one, the sockets alone make a difference that no number of rounds averages out.
// It takes seven series to refute anything at 95 %.
func anytime(logs []float64, d Design) Ratio {
	// The estimate is the median, because the bets depend on the sign of a series more than on its
	// distance.
	r := Ratio{Value: exp(Median(logs)), Level: d.Confidence, Series: len(logs), P: min(1, 1/capital(logs, 0))}
	lo, hi, ok := unrefuted(logs, 1/d.Alpha())
	if !ok {
		r.Open = true
		return r
	}
	r.Lo, r.Hi = min(exp(lo), r.Value), max(exp(hi), r.Value)
	r.Detectable = expm1((hi-lo)/2 + powerMargin(len(logs), medianError(logs)))
	return r
}

// powerMargin is by how much the truth must exceed the half-width of an interval, so that the interval
// excludes 1 with a probability of [power]: its centre has a standard error of its own.
func powerMargin(series int, standardError float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(series - 1)}.Quantile(power) * standardError
}

// medianError returns the standard error of the median, as of normal values.
func medianError(x []float64) float64 { return math.Sqrt(math.Pi / 2 * squaredError(x)) }

// capital is the mean capital of all bettors after all series. A bettor risks more the
// further a series is from the ratio, relative to the ones before: a small deviation carries little
// information.
func capital(logs []float64, ratio float64) float64 {
	up, down := make([]float64, len(stakes)), make([]float64, len(stakes))
	for i := range stakes {
		up[i], down[i] = 1, 1
	}
	before := make([]float64, 0, len(logs)) // absolute deviations so far, ascending
	for _, x := range logs {
		off := x - ratio
		weight := 1.0
		if len(before) > 0 && medianSorted(before) > 0 {
			weight = min(1, 2*math.Abs(off)/medianSorted(before))
		}
		switch {
		case off == 0:
			weight = 0
		case off < 0:
			weight = -weight
		}
		for i, s := range stakes {
			up[i] *= 1 + s*weight
			down[i] *= 1 - s*weight
		}
		at, _ := slices.BinarySearch(before, math.Abs(off))
		before = slices.Insert(before, at, math.Abs(off))
	}
	sum := 0.0
	for i := range stakes {
		sum += up[i] + down[i]
	}
	return sum / float64(2*len(stakes))
}

// grid is the number of steps of the first search for the ends of an interval, and halvings how
// often a step is halved afterwards.
const (
	grid     = 64
	halvings = 12
)

// unrefuted returns the smallest and largest log ratio against which the capital has stayed below a
// limit; false means that there is none.
func unrefuted(logs []float64, growth float64) (lo, hi float64, ok bool) {
	least, greatest := slices.Min(logs), slices.Max(logs)
	far := max(greatest-least, 1e-9) * 2
	center := Median(logs)
	search := func(from float64) (float64, bool) {
		if capital(logs, from) < growth {
			return 0, false
		}
		refuted, step := from, (center-from)/grid
		for i := range grid {
			next := from + float64(i+1)*step
			if capital(logs, next) < growth {
				break
			}
			refuted = next
		}
		for range halvings {
			step /= 2
			if capital(logs, refuted+step) >= growth {
				refuted += step
			}
		}
		return refuted, true
	}
	lo, okLo := search(least - far)
	hi, okHi := search(greatest + far)
	return lo, hi, okLo && okHi
}

// EBH converts e-values, given as 1/e, to values to compare with alpha. Among those below alpha,
// the expected share of false discoveries is at most alpha under any dependence (the e-value form
// of Benjamini and Hochberg; Wang and Ramdas, 2022). The order is kept.
func EBH(inverse []float64) []float64 {
	order := ascending(inverse)
	out := make([]float64, len(inverse))
	best := 1.0
	for rank := len(order) - 1; rank >= 0; rank-- {
		i := order[rank]
		best = min(best, inverse[i]*float64(len(order))/float64(rank+1))
		out[i] = best
	}
	return out
}
