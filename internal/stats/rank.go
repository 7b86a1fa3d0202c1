package stats

import (
	"math"
	"slices"
)

// maxRank bounds the exact signed-rank distribution: for more values its table is large and the
// exact answer gains nothing.
const maxRank = 100

// SignedRank returns the exact two-sided p-value of Wilcoxon's signed-rank test of "x is symmetric
// around 0". Zeros are ignored. Ties get the mean of their ranks and stay exact. NaN for more than
// 100 values.
func SignedRank(x []float64) float64 {
	v := BySize(x)
	n := len(v)
	if n == 0 {
		return 1
	}
	if n > maxRank {
		return math.NaN()
	}
	// Ranks are doubled, so that the mean of tied ranks is a whole number.
	ranks := make([]int, n)
	for i := 0; i < n; {
		j := i
		for j < n && math.Abs(v[j]) == math.Abs(v[i]) {
			j++
		}
		for k := i; k < j; k++ {
			ranks[k] = i + 1 + j
		}
		i = j
	}
	plus, total := 0, 0
	for i, r := range ranks {
		total += r
		if v[i] > 0 {
			plus += r
		}
	}
	p := RankDistribution(ranks)
	tail := 0.0
	for w := 0; w <= min(plus, total-plus); w++ {
		tail += p[w]
	}
	return min(1, 2*tail)
}

// BySize returns the values that are not 0, sorted by absolute value.
func BySize(x []float64) []float64 {
	v := slices.DeleteFunc(slices.Clone(x), func(d float64) bool { return d == 0 })
	slices.SortFunc(v, func(a, b float64) int {
		switch {
		case math.Abs(a) < math.Abs(b):
			return -1
		case math.Abs(a) > math.Abs(b):
			return 1
		}
		return 0
	})
	return v
}

// RankDistribution returns P(W = w) for the sum W of the ranks with a plus sign, when each sign is
// a fair coin. Ranks must not be negative.
func RankDistribution(ranks []int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	p := make([]float64, total+1)
	p[0] = 1
	for _, r := range ranks {
		for w := total; w >= 0; w-- {
			p[w] /= 2
			if w >= r {
				p[w] += p[w-r] / 2
			}
		}
	}
	return p
}

// HodgesLehmann returns the median of all pairwise means of x, with the interval that corresponds
// to the exact signed-rank test. ok is false if there are too few values for an interval of that
// level (0.95 takes at least 6) or more than 100; the estimate is returned in any case.
func HodgesLehmann(x []float64, level float64) (est, lo, hi float64, ok bool) {
	n := len(x)
	if n == 0 || n > maxRank {
		return Median(x), 0, 0, false
	}
	walsh := make([]float64, 0, n*(n+1)/2)
	for i := range x {
		for j := i; j < n; j++ {
			walsh = append(walsh, x[i]/2+x[j]/2)
		}
	}
	slices.Sort(walsh)
	est = medianSorted(walsh)
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	p := RankDistribution(ranks)
	k, tail := 0, p[0]
	for k < len(walsh)/2 && tail <= (1-level)/2 {
		k++
		tail += p[k]
	}
	if k == 0 {
		return est, 0, 0, false
	}
	return est, walsh[k-1], walsh[len(walsh)-k], true
}
