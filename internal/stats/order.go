package stats

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"
)

// Median returns the median of x without modifying it; NaN if x is empty.
func Median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	s := slices.Clone(x)
	slices.Sort(s)
	return medianSorted(s)
}

func medianSorted(s []float64) float64 {
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return s[n/2-1]/2 + s[n/2]/2
}

// medianInterval returns the exact order-statistic interval of the median of the distribution that
// x was drawn from. It assumes only independence. Its coverage is at least level. It returns false
// if there are too few values for that level: 0.95 takes at least 6.
func medianInterval(x []float64, level float64) (lo, hi float64, ok bool) {
	n := len(x)
	if n == 0 {
		return 0, 0, false
	}
	b := distuv.Binomial{N: float64(n), P: 0.5}
	// The interval [x(k), x(n+1-k)] misses with probability 2 P(B <= k-1).
	k := sort.Search((n+1)/2, func(i int) bool { return b.CDF(float64(i)) > (1-level)/2 })
	if k == 0 {
		return 0, 0, false
	}
	s := slices.Clone(x)
	slices.Sort(s)
	return s[k-1], s[n-k], true
}

// signTest returns the exact two-sided p-value of "the median is 0". Zeros are ignored.
func signTest(x []float64) float64 {
	below, above := 0, 0
	for _, v := range x {
		switch {
		case v < 0:
			below++
		case v > 0:
			above++
		}
	}
	n := below + above
	if n == 0 {
		return 1
	}
	b := distuv.Binomial{N: float64(n), P: 0.5}
	return min(1, 2*b.CDF(float64(min(below, above))))
}

// GeoMean returns the geometric mean of x, which is the right mean for ratios. All values must be
// above 0. NaN if x is empty.
func GeoMean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(x)))
}

// Lag1 returns the autocorrelation at lag 1 of consecutive values, in separate groups; 0 if it
// cannot be computed. Independent values give about 0. A high value means slow noise, which longer
// slices would not average out; only interleaving helps.
func Lag1(groups [][]float64) float64 {
	sum, n := 0.0, 0
	for _, g := range groups {
		for _, v := range g {
			sum += v
			n++
		}
	}
	mean := sum / float64(n)
	cov, variance, pairs := 0.0, 0.0, 0
	for _, g := range groups {
		for i, v := range g {
			variance += (v - mean) * (v - mean)
			if i > 0 {
				cov += (v - mean) * (g[i-1] - mean)
				pairs++
			}
		}
	}
	if pairs == 0 || variance == 0 {
		return 0
	}
	return cov / float64(pairs) / (variance / float64(n))
}
