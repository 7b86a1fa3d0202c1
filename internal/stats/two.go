package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Quotient returns the ratio of two ratios that were measured separately, such as before and
// after a change: b to a. Each is given by the log-ratios of the rounds of its
// series. It returns false if one of the two has no series.
//
// The interval is Welch's, over the estimates of the series: the two may differ
// in noise and in number of series. If a run stopped as soon as it was decided, the
// interval is the union bound of both anytime intervals, which is wider.
func Quotient(a, b [][]float64, d Design) (Ratio, bool) {
	before, after := medians(a), medians(b)
	if len(before) == 0 || len(after) == 0 {
		return Ratio{}, false
	}
	center := mean
	if d.Anytime {
		center = Median
	}
	r := Ratio{
		Value: exp(center(after) - center(before)), Level: d.Level(), P: 1,
		Series: min(len(before), len(after)), Rounds: rounds(a) + rounds(b),
	}
	if r.Series < MinSeries {
		r.Open = true
		return r, true
	}
	if d.Anytime {
		unionBound(&r, before, after, d)
	} else {
		welch(&r, before, after, d)
	}
	return r, true
}

// unionBound returns an interval that holds if those of both ratios do, each at half of the error
// probability.
func unionBound(r *Ratio, before, after []float64, d Design) {
	lo, hi, ok := unionInterval(before, after, d.Alpha())
	if r.Open = !ok; r.Open {
		return
	}
	r.Lo, r.Hi = min(lo, r.Value), max(hi, r.Value)
	margin := powerMargin(min(len(before), len(after)), math.Hypot(medianError(before), medianError(after)))
	r.Detectable = expm1(math.Log(r.Hi/r.Lo)/2 + margin)
	// The p-value is the smallest error probability at which 1 is still excluded.
	for alpha := d.Alpha(); alpha > leastP; alpha /= 2 {
		if lo, hi, ok := unionInterval(before, after, alpha); !ok || lo <= 1 && hi >= 1 {
			break
		}
		r.P = alpha * (1 - 1e-9) // 1 is excluded, so the p-value is below
	}
}

// leastP is the smallest p-value that the search for a union bound tries.
const leastP = 1e-4

func unionInterval(before, after []float64, alpha float64) (lo, hi float64, ok bool) {
	half := Design{Confidence: 1 - alpha/2, Anytime: true}
	a, b := anytime(before, half), anytime(after, half)
	if a.Open || b.Open {
		return 0, 0, false
	}
	return b.Lo / a.Hi, b.Hi / a.Lo, true
}

func welch(r *Ratio, before, after []float64, d Design) {
	va, vb := squaredError(before), squaredError(after)
	if va+vb == 0 {
		r.Lo, r.Hi = r.Value, r.Value
		if r.Value != 1 {
			r.P = 0
		}
		return
	}
	na, nb := float64(len(before)), float64(len(after))
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: (va + vb) * (va + vb) / (va*va/(na-1) + vb*vb/(nb-1))}
	se, log := math.Sqrt(va+vb), math.Log(r.Value)
	factor := t.Quantile(1 - (1-r.Level)/2)
	r.Lo, r.Hi = exp(log-factor*se), exp(log+factor*se)
	r.P = min(1, 2*t.CDF(-math.Abs(log)/se)*float64(d.looks()))
	r.Detectable = expm1((factor + t.Quantile(power)) * se)
}

// medians returns the estimates of the series that have rounds.
func medians(series [][]float64) (out []float64) {
	for _, s := range series {
		if len(s) > 0 {
			out = append(out, Median(s))
		}
	}
	return out
}

func rounds(series [][]float64) (n int) {
	for _, s := range series {
		n += len(s)
	}
	return n
}

func mean(x []float64) (m float64) {
	for _, v := range x {
		m += v / float64(len(x))
	}
	return m
}

// squaredError returns the squared standard error of the mean.
func squaredError(x []float64) float64 {
	m, ss := mean(x), 0.0
	for _, v := range x {
		ss += (v - m) * (v - m)
	}
	n := float64(len(x))
	return ss / (n - 1) / n
}
