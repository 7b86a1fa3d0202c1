package search

import (
	"math"
	"slices"

	"github.com/venturi-net/venturi/internal/stats"
)

// cappedAt is the share of the pairs above whose rank no pair counts for more: a
// few wild pairs then cannot drown what all others say. With 1 the test is that of
// Wilcoxon, which pairs that were spoiled make blind; with little it is the sign test.
const cappedAt = 0.5

// signedRankP is the exact one-sided p of "no better": of all ways to flip the signs of
// the pairs, the share that speaks as loudly for it. A pair speaks by its rank
// among all by size, up to a cap. It holds whatever the noise, as long as two
// equal states are exchangeable.
func signedRankP(gains []float64) float64 {
	x := stats.BySize(gains)
	limit := max(1, int(math.Ceil(cappedAt*float64(len(x)))))
	scores, sum := make([]int, len(x)), 0
	for i, v := range x {
		scores[i] = min(i+1, limit)
		if v > 0 {
			sum += scores[i]
		}
	}
	p := 0.0
	for _, share := range stats.RankDistribution(scores)[sum:] {
		p += share
	}
	return min(1, p)
}

// lowerBound is the one-sided bound of the gain at a level of error that belongs to
// the same test: the most that can be taken off each pair so that it is still sure.
// False: there are too few pairs.
func lowerBound(gains []float64, alpha float64) (float64, bool) {
	if math.Ldexp(1, -len(gains)) > alpha {
		return 0, false
	}
	var walsh []float64
	for i := range gains {
		for _, g := range gains[:i+1] {
			walsh = append(walsh, gains[i]/2+g/2)
		}
	}
	slices.Sort(walsh)
	off := make([]float64, len(gains))
	n, _ := slices.BinarySearchFunc(walsh, alpha, func(theta, alpha float64) int {
		for i, g := range gains {
			off[i] = g - theta
		}
		if signedRankP(off) <= alpha {
			return -1
		}
		return 1
	})
	return walsh[max(0, n-1)], true
}

// spread is a robust standard deviation: that of Shamos, from the differences of
// all pairs of values of a group.
func spread(groups ...[]float64) float64 {
	var all []float64
	for _, x := range groups {
		for i := range x {
			for _, v := range x[:i] {
				all = append(all, math.Abs(x[i]-v))
			}
		}
	}
	if len(all) == 0 {
		return 0
	}
	return 1.0483 * stats.Median(all)
}

func sign(x float64) int {
	switch {
	case x < 0:
		return -1
	case x > 0:
		return 1
	}
	return 0
}
