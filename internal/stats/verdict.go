package stats

import (
	"cmp"
	"math"
	"slices"
)

// Verdict is the answer for one row.
type Verdict string

// The verdicts. None is for rows without one: the baseline, every row of a cell whose noise floor
// failed, and a comparison of an emulated machine with a real one.
const (
	NotJudged  Verdict = ""
	Equivalent Verdict = "same"
	Faster     Verdict = "faster"
	Slower     Verdict = "slower"
	CannotTell Verdict = "cannot tell"
)

// Reason says why a verdict is not faster, slower or same.
type Reason string

// The reasons.
const (
	NoReason   Reason = ""
	TooWide    Reason = "interval"       // the interval includes 1 and exceeds the margin
	TooFew     Reason = "too few rounds" // there is no interval, or none over series
	BelowHolm  Reason = "holm"           // significant alone, but not among so many comparisons
	BelowNoise Reason = "noise floor"    // below what two identical arms can show
	BadFloor   Reason = "too noisy"      // two identical arms differ: there are no verdicts
	Blank      Reason = "no figures"     // too many slices without figures; set by the caller, not by Judge
	Emulated   Reason = "emulated"       // one of the two on an emulated CPU: no verdict; set by the caller, like Blank
)

// FloorLevel is the confidence at which the baseline's copy must differ before a whole cell is
// rejected. It is stricter than that of a verdict, because 95 % would reject one sound cell in
// twenty. A copy that differs only at 95 % still raises the floor.
const FloorLevel = 0.99

// Floor is what two identical arms show: the resolution of the machine. Its size is their apparent
// difference, but at least half the width of its interval. (The far end of that interval would
// count the same noise twice, here and in the row's own interval: in simulations it misses one real
// difference in ten that this one sees, to lower a rate of false alarms that is below 3 % already.)
type Floor struct {
	Ratio   Ratio   `json:"ratio"`   // copy to baseline
	Size    float64 `json:"size"`    // relative: smaller differences are not claimed
	Invalid bool    `json:"invalid"` // the copy differs from its baseline
}

// NewFloor estimates the floor from the log-ratios of a baseline's copy, in the form that
// [FromRounds] takes. It returns false if there is no estimate.
func NewFloor(series [][]float64, d Design, margin float64) (Floor, bool) {
	r, ok := FromRounds(series, d)
	if !ok {
		return Floor{}, false
	}
	// Within a series, two identical arms differ by their sockets: the size of that is what is asked for.
	if r.Open || r.WithinSeries {
		r.Open, r.Lo, r.Hi, r.Detectable = true, 0, 0, 0
		return Floor{Ratio: r}, true
	}
	f := Floor{Ratio: r}
	half, _ := r.HalfWidth()
	f.Size = max(half, expm1(math.Abs(math.Log(r.Value))))
	strict, _ := FromRounds(series, Design{Confidence: max(FloorLevel, d.Confidence), Looks: d.Looks, Anytime: d.Anytime})
	f.Invalid = strict.excludes1() && !insideMargin(r, margin)
	return f, true
}

// Criterion is what decides a row's verdict.
type Criterion struct {
	Margin        float64 // relative
	LowerIsBetter bool
	Alpha         float64
	Floor         *Floor // nil: there was no copy
}

// Judgement is a verdict with its reason.
type Judgement struct {
	Verdict Verdict `json:"verdict"`
	Reason  Reason  `json:"reason,omitempty"`
	// Detectable is the smallest relative difference that could have been claimed: the row's own,
	// or the noise floor if that is larger.
	Detectable float64 `json:"detectable"`
}

// Judge returns the verdict for r; adjusted is its p-value after [Holm].
func Judge(r Ratio, adjusted float64, rule Criterion) Judgement {
	j := Judgement{Verdict: CannotTell, Detectable: r.Detectable}
	if rule.Floor != nil {
		j.Detectable = max(j.Detectable, rule.Floor.Size)
	}
	switch {
	case rule.Floor != nil && rule.Floor.Invalid:
		j.Verdict, j.Reason = NotJudged, BadFloor
	case r.Open || r.WithinSeries:
		j.Reason, j.Detectable = TooFew, 0
	case insideMargin(r, rule.Margin):
		j.Verdict = Equivalent
	case !r.excludes1():
		j.Reason = TooWide
	case rule.Floor != nil && expm1(math.Abs(math.Log(r.Value))) < rule.Floor.Size:
		j.Reason = BelowNoise
	case adjusted >= rule.Alpha:
		j.Reason = BelowHolm
	case (r.Value < 1) == rule.LowerIsBetter:
		j.Verdict = Faster
	default:
		j.Verdict = Slower
	}
	return j
}

func insideMargin(r Ratio, margin float64) bool {
	return !r.Open && r.Lo >= 1-margin && r.Hi <= 1+margin
}

// Holm returns the p-values of a family of tests, corrected so that the probability of any false
// alarm among them is that of a single test. The order is kept.
func Holm(p []float64) []float64 {
	order := ascending(p)
	out := make([]float64, len(p))
	worst := 0.0
	for rank, i := range order {
		worst = max(worst, min(1, p[i]*float64(len(p)-rank)))
		out[i] = worst
	}
	return out
}

// ascending lists the indices of values in ascending order of value.
func ascending(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	return order
}

// Looks returns the numbers of series after which a run of at most maxSeries may stop early; the
// last is maxSeries itself. They are few, because each costs width, and none comes before an
// interval over series is meaningful.
func Looks(maxSeries int) []int {
	switch {
	case maxSeries < 6:
		return []int{max(1, maxSeries)}
	case maxSeries < 12:
		return []int{(maxSeries*2 + 2) / 3, maxSeries}
	default:
		return []int{maxSeries / 3, maxSeries * 2 / 3, maxSeries}
	}
}
