package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// ChangeDetector detects a change in a value that is measured repeatedly. It tests after every
// value, for as long as it runs. The mean number of values between false alarms is at least
// [ChangeDetector.Threshold].
//
// It is an e-detector (Shin, Ramdas and Rinaldo, 2024). For each value it keeps the capital of a
// bettor who started there and bets that the values have changed; the sum of all capitals is the
// evidence, as in the Shiryaev-Roberts procedure. The bets are on ranks. Without a change, the rank
// of a new value among all previous ones is uniform, so no bettor gains on average, whatever the
// distribution (Vovk's conformal test martingales). Ties are broken at random, so that this holds
// for equal values, too. The level, spread and shape of the distribution need not be known.
type ChangeDetector struct {
	// Threshold is the minimum mean number of values between false alarms, above 1.
	Threshold float64

	values []float64   // since the last change, in order of arrival
	sorted []float64   // the same values, ascending
	starts []*betStart // one for each of the latest values: bets that it is the first after a change
}

// mostStarts is the maximum number of bets that a detector keeps. Dropping an older one lowers the
// evidence, so no false alarm comes sooner. All values are kept, because ranks among a part of them
// would depend on previous ranks.
const mostStarts = 2000

// Shift is a detected change.
type Shift struct {
	Since         int     // number of values since the change: 1 is the latest
	Before, After float64 // medians
}

// betOverlaps are bets on how much the values after a change overlap those before: the share of the
// earlier values among which the new ones are expected. Zero means no overlap.
var betOverlaps = []float64{0, 0.1, 0.3}

// betReserve is the share of a capital that is not bet, so that one outlier does not ruin a bettor.
const betReserve = 0.1

// betStart holds the capitals of the bettors who started at one value, by overlap: bets on higher
// values, and bets on lower ones.
type betStart struct{ up, down [3]float64 }

// capital is the mean of all.
func (b *betStart) capital() float64 {
	sum := 0.0
	for i := range b.up {
		sum += b.up[i] + b.down[i]
	}
	return sum / float64(2*len(b.up))
}

// Add adds a value, and returns the change that it proves, if any. After a change the detector
// starts anew, because the old values are no longer the norm. NaN is ignored.
func (d *ChangeDetector) Add(value float64) (Shift, bool) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return Shift{}, false
	}
	at := d.place(value)
	d.values, d.sorted = append(d.values, value), slices.Insert(d.sorted, at, value)
	begin := &betStart{}
	for i := range begin.up {
		begin.up[i], begin.down[i] = 1, 1
	}
	d.starts = append(d.starts, begin)
	d.starts = slices.Delete(d.starts, 0, max(0, len(d.starts)-mostStarts))
	n := len(d.values)
	for i, b := range d.starts {
		b.bet(at, d.first(i), n)
	}
	if d.Evidence() < d.Threshold {
		return Shift{}, false
	}
	return d.shift(), true
}

// place returns the rank of a value among the previous ones. Ties are broken at random, with a seed
// from the values, so that a replay gives the same result.
func (d *ChangeDetector) place(value float64) int {
	at, tied := slices.BinarySearch(d.sorted, value)
	if !tied {
		return at
	}
	equal := 1
	for at+equal < len(d.sorted) && d.sorted[at+equal] == value {
		equal++
	}
	lot := rand.New(rand.NewPCG(math.Float64bits(value), uint64(len(d.values))))
	return at + lot.IntN(equal+1)
}

// first is the index of the value at which the i-th bet started.
func (d *ChangeDetector) first(i int) int { return len(d.values) - len(d.starts) + i }

// bet settles the bets that the values changed at index j, for a new value with rank at among n.
func (b *betStart) bet(at, j, n int) {
	for i, overlap := range betOverlaps {
		// The values after the change are expected at one end, overlapping some of the earlier
		// ones.
		expected := n - j + int(overlap*float64(j))
		b.up[i] *= payoff(n-1-at < expected, expected, n)
		b.down[i] *= payoff(at < expected, expected, n)
	}
}

// payoff is the return on a bet of 1 that is spread evenly over the expected ranks of n, except for
// the reserve. Its mean is 1 if all ranks are equally likely.
func payoff(hit bool, expected, n int) float64 {
	if expected >= n {
		return 1
	}
	if !hit {
		return betReserve
	}
	return betReserve + (1-betReserve)*float64(n)/float64(expected)
}

// Evidence is the sum of all capitals. A change is detected when it reaches
// [ChangeDetector.Threshold].
func (d *ChangeDetector) Evidence() float64 {
	sum := 0.0
	for _, b := range d.starts {
		sum += b.capital()
	}
	return sum
}

// plausible is the minimum capital of a candidate start, as a share of the largest.
const plausible = 0.05

// shift returns the change: among the starts with a large capital, the one that separates the
// values best. It then resets the detector.
func (d *ChangeDetector) shift() Shift {
	most := 0.0
	for _, b := range d.starts {
		most = max(most, b.capital())
	}
	best, widest := 0, -1.0
	for i, b := range d.starts {
		if j := d.first(i); j > 0 && b.capital() >= plausible*most {
			if apart := separation(d.values, j); apart > widest {
				best, widest = j, apart
			}
		}
	}
	s := Shift{Since: len(d.values) - best, Before: Median(d.values[:best]), After: Median(d.values[best:])}
	d.values, d.sorted, d.starts = nil, nil, nil
	return s
}

// separation returns how much of the variance a step at index j explains.
func separation(values []float64, j int) float64 {
	before, after := stat.Mean(values[:j], nil), stat.Mean(values[j:], nil)
	n, k := float64(len(values)), float64(j)
	return k * (n - k) / n * (after - before) * (after - before)
}
