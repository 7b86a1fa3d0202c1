package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// ChangeDetector tells when a value that is measured again and again has moved. It looks
// after every value, for as long as it runs, and a false alarm comes after
// [ChangeDetector.Threshold] values at the earliest in the mean.
//
// It is an e-detector (Shin, Ramdas and Rinaldo, 2024): for each value it asks how much
// somebody would own by now who had bet from there on that the values have moved, and
// adds these capitals up, as Shiryaev and Roberts did. The bets are on ranks. As long as
// nothing changes, each rank of a new value among all before it is as likely as any
// other, so no bettor gains in the mean, whatever the distribution of the values is
// (Vovk's conformal test martingales). Equal values get their places by lot, so that this
// holds of them too. Neither a level, nor a spread, nor a shape has to be known.
type ChangeDetector struct {
	// Threshold is the least mean number of values between false alarms, above 1.
	Threshold float64

	values []float64   // since the last change, in their order
	sorted []float64   // the same, ascending
	starts []*betStart // one for each of the last values: the bets that it was the first after a change
}

// mostStarts is how many bets a detector keeps. Without an older one it owns less, so no
// false alarm comes sooner. The values are all kept: among some of them, a rank would
// depend on the ranks before it.
const mostStarts = 2000

// Shift is a change that was found.
type Shift struct {
	Since         int     // how many values ago it came: 1 is the last one
	Before, After float64 // medians
}

// betOverlaps are the shares of the values before a change that those after it are
// expected to lie among: none where the two do not meet at all.
var betOverlaps = []float64{0, 0.1, 0.3}

// betReserve is the share of a capital that is bet on no direction, so that one
// outlier does not ruin it.
const betReserve = 0.1

// betStart is the capitals of those who bet from one value on, by overlap: that
// what follows is higher, and that it is lower.
type betStart struct{ up, down [3]float64 }

// capital is the mean of all.
func (b *betStart) capital() float64 {
	sum := 0.0
	for i := range b.up {
		sum += b.up[i] + b.down[i]
	}
	return sum / float64(2*len(b.up))
}

// Add takes the next value, and returns the change that it proves, if it does. The
// detector then begins anew: what was normal before does not count any more. A value
// that is not a number is left out.
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

// place is where a value belongs among those before it. Among equal ones, it is drawn: the
// same for the same values.
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

// first is the index of the value that the i-th start bets from.
func (d *ChangeDetector) first(i int) int { return len(d.values) - len(d.starts) + i }

// bet settles the bets that the values from index j on are others, on a value that
// is at place at of n.
func (b *betStart) bet(at, j, n int) {
	for i, overlap := range betOverlaps {
		// The values since the change are expected at one end, among some of those before.
		expected := n - j + int(overlap*float64(j))
		b.up[i] *= payoff(n-1-at < expected, expected, n)
		b.down[i] *= payoff(at < expected, expected, n)
	}
}

// payoff is what a unit becomes that was spread over the expected of n places, but for
// the reserve. Its mean is 1 where all places are as likely.
func payoff(hit bool, expected, n int) float64 {
	if expected >= n {
		return 1
	}
	if !hit {
		return betReserve
	}
	return betReserve + (1-betReserve)*float64(n)/float64(expected)
}

// Evidence is the sum of all capitals. At [ChangeDetector.Threshold] it is a change.
func (d *ChangeDetector) Evidence() float64 {
	sum := 0.0
	for _, b := range d.starts {
		sum += b.capital()
	}
	return sum
}

// plausible is the share of the greatest capital that a start must have to be the change.
const plausible = 0.05

// shift is the change: of the starts that much was earned with, the one that parts the
// values best. The detector begins anew.
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

// separation is how much of the variation of values is explained by a step at index j.
func separation(values []float64, j int) float64 {
	before, after := stat.Mean(values[:j], nil), stat.Mean(values[j:], nil)
	n, k := float64(len(values)), float64(j)
	return k * (n - k) / n * (after - before) * (after - before)
}
