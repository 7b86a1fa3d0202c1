package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// Bucket is one counter of a histogram: Count values equal Value, within the histogram's
// resolution.
type Bucket struct{ Value, Count int64 }

// Histogram is a list of buckets in ascending order of value, without empty ones.
type Histogram []Bucket

// Total returns the number of values.
func (h Histogram) Total() int64 {
	n := int64(0)
	for _, b := range h {
		n += b.Count
	}
	return n
}

// Quantile returns the value that a share of all values does not exceed; 0 if the histogram is
// empty.
func (h Histogram) Quantile(q float64) float64 {
	rank, seen := max(1, int64(math.Ceil(q*float64(h.Total())-1e-9))), int64(0)
	for _, b := range h {
		if seen += b.Count; seen >= rank {
			return float64(b.Value)
		}
	}
	return 0
}

// Merge returns the sum of histograms.
func Merge(hs []Histogram) Histogram {
	switch len(hs) {
	case 0:
		return Histogram{}
	case 1:
		return add(hs[0], nil)
	}
	half := len(hs) / 2
	return slices.Clone(add(Merge(hs[:half]), Merge(hs[half:]))) // without the room for values that both have
}

// add returns the sum of two histograms.
func add(a, b Histogram) Histogram {
	out := make(Histogram, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		var next Bucket
		if len(b) == 0 || len(a) > 0 && a[0].Value <= b[0].Value {
			next, a = a[0], a[1:]
		} else {
			next, b = b[0], b[1:]
		}
		switch last := len(out) - 1; {
		case last >= 0 && out[last].Value == next.Value:
			out[last].Count += next.Count
		case next.Count > 0:
			out = append(out, next)
		}
	}
	return out
}

// Percentile is a percentile of merged histograms with its interval. Units are the histogram's.
type Percentile struct {
	Q     float64 `json:"q"` // 0.99
	Value float64 `json:"value"`
	Lo    float64 `json:"lo"` // Lo and Hi are 0 if there are too few slices
	Hi    float64 `json:"hi"`
}

// MinSamples returns how many values a percentile needs: ten beyond it, so 1000 for p99 and 10,000
// for p99.9.
func MinSamples(q float64) int64 { return int64(math.Round(10 / (1 - q))) }

// Bootstrap configures the resampling of an interval.
type Bootstrap struct {
	Resamples int
	Seed      uint64
	Level     float64
}

// minBlocks is the minimum number of slices to resample.
const minBlocks = 8

// Percentiles returns percentiles of all slices merged, if there are enough samples. Percentiles of
// slices are never averaged, because a mean of p99s is not a p99. The interval comes from a
// circular block bootstrap over the slices, which must be in time order: neighbouring slices share
// the state of the machine, so blocks of sqrt(n) slices are drawn. On a machine that drifts, the
// interval is somewhat narrow (a 90 % one covers the truth in 80 to 90 %), so no verdict depends on
// it.
func Percentiles(slicesInOrder []Histogram, qs []float64, b Bootstrap) []Percentile {
	grid, sparse, total := index(slicesInOrder)
	var out []Percentile
	for _, q := range qs {
		if total >= MinSamples(q) {
			out = append(out, Percentile{Q: q})
		}
	}
	if len(out) == 0 {
		return nil
	}
	sums := make([]int64, len(grid))
	totals := make([]int64, len(sparse))
	weights := make([]int64, len(sparse))
	for i := range weights {
		weights[i] = 1
		for _, c := range sparse[i] {
			totals[i] += c.n
		}
	}
	for i, v := range quantiles(grid, sparse, weights, totals, sums, out) {
		out[i].Value = v
	}
	if len(sparse) < minBlocks || b.Resamples < 1 {
		return out
	}
	draws := make([][]float64, len(out))
	rng := rand.New(rand.NewPCG(b.Seed, uint64(len(sparse))))
	block := max(1, int(math.Sqrt(float64(len(sparse)))))
	for range b.Resamples {
		clear(weights)
		for drawn := 0; drawn < len(sparse); drawn += block {
			start := rng.IntN(len(sparse))
			for k := range min(block, len(sparse)-drawn) {
				weights[(start+k)%len(sparse)]++
			}
		}
		for i, v := range quantiles(grid, sparse, weights, totals, sums, out) {
			draws[i] = append(draws[i], v)
		}
	}
	for i := range out {
		slices.Sort(draws[i])
		tail := (1 - b.Level) / 2
		last := len(draws[i]) - 1
		out[i].Lo = draws[i][int(tail*float64(last))]
		out[i].Hi = draws[i][int(math.Ceil((1-tail)*float64(last)))]
	}
	return out
}

// bucket is one bucket of a slice's histogram: its index in the grid, and its count.
type bucket struct {
	index int32
	n     int64
}

// index maps all slices to one grid of values.
func index(hs []Histogram) (grid []int64, sparse [][]bucket, total int64) {
	seen := map[int64]bool{}
	for _, h := range hs {
		for _, b := range h {
			if b.Count > 0 && !seen[b.Value] {
				seen[b.Value] = true
				grid = append(grid, b.Value)
			}
		}
	}
	slices.Sort(grid)
	for _, h := range hs {
		row := make([]bucket, 0, len(h))
		for _, b := range h {
			if b.Count > 0 {
				at := sort.Search(len(grid), func(i int) bool { return grid[i] >= b.Value })
				row = append(row, bucket{int32(at), b.Count})
				total += b.Count
			}
		}
		if len(row) > 0 {
			sparse = append(sparse, row)
		}
	}
	return grid, sparse, total
}

// quantiles merges the slices, each as often as its weight says, and returns the percentiles.
// totals are the slices' numbers of values, and sums is scratch space.
func quantiles(grid []int64, sparse [][]bucket, weights, totals, sums []int64, ps []Percentile) []float64 {
	clear(sums)
	total := int64(0)
	for i, row := range sparse {
		weight := weights[i]
		if weight == 0 {
			continue
		}
		total += weight * totals[i]
		for _, c := range row {
			sums[c.index] += weight * c.n
		}
	}
	out := make([]float64, len(ps))
	for i, p := range ps {
		rank := max(1, int64(math.Ceil(p.Q*float64(total)-1e-9)))
		seen := int64(0)
		for at, n := range sums {
			if seen += n; seen >= rank {
				out[i] = float64(grid[at])
				break
			}
		}
	}
	return out
}
