package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// MinSeries is the minimum number of series for an interval over series. With one degree of
// freedom, Student's t has a factor of 12.7, which is useless.
const MinSeries = 3

// power is the probability of detecting a difference of size [Ratio.Detectable].
const power = 0.8

// Design sets the confidence of an interval.
type Design struct {
	Confidence float64 // of the run: 0.95
	Looks      int     // how many times the run may stop; 0 or 1: only at its end
	// Anytime: the run may stop after any series, for any reason that the data suggest.
	Anytime bool
}

// Level returns the confidence of one interval at one look.
func (d Design) Level() float64 { return 1 - d.Alpha()/float64(d.looks()) }

// Alpha returns the false-alarm probability of the run.
func (d Design) Alpha() float64 { return 1 - d.Confidence }

func (d Design) looks() int { return max(1, d.Looks) }

// Ratio is a ratio with its interval; 1 means equal.
type Ratio struct {
	Value  float64 `json:"value"`
	Lo     float64 `json:"lo"` // Lo and Hi are 0 if Open
	Hi     float64 `json:"hi"`
	Level  float64 `json:"level"`          // of Lo..Hi
	Open   bool    `json:"open,omitempty"` // too few values for an interval
	P      float64 `json:"p"`              // two-sided, of "the ratio is 1", corrected for looks
	Series int     `json:"series"`
	Rounds int     `json:"rounds"` // of all series
	// WithinSeries: the interval is over the rounds of one or two series, so it does not include
	// differences between sets of sockets.
	WithinSeries bool `json:"within_series,omitempty"`
	// Detectable is the smallest relative difference that would be detected with a probability of
	// 80 %; 0 if Open.
	Detectable float64 `json:"detectable"`
	Cross      *Cross  `json:"cross,omitempty"`
}

// Cross is the nonparametric answer to the same question.
type Cross struct {
	P        float64 `json:"p"`     // exact signed-rank test
	Value    float64 `json:"value"` // Hodges-Lehmann
	Lo       float64 `json:"lo"`    // 0 if there are too few series
	Hi       float64 `json:"hi"`
	Disagree bool    `json:"disagree,omitempty"` // strongly, with the t interval
}

// HalfWidth returns half of the interval's relative width: 0.02 is ±2 %. It returns false if there
// is no interval.
func (r Ratio) HalfWidth() (float64, bool) {
	if r.Open || r.Lo <= 0 {
		return 0, false
	}
	return math.Sqrt(r.Hi/r.Lo) - 1, true
}

// excludes1 reports whether the interval excludes 1.
func (r Ratio) excludes1() bool { return !r.Open && (r.Lo > 1 || r.Hi < 1) }

// FromRounds estimates a ratio from the log-ratios of the rounds of each series. Empty series are
// skipped; it returns false if none is left.
func FromRounds(series [][]float64, d Design) (Ratio, bool) {
	estimates := medians(series)
	switch {
	case len(estimates) == 0:
		return Ratio{}, false
	case len(estimates) < MinSeries:
		r := fromPairs(slices.Concat(series...), d)
		r.WithinSeries, r.Series = true, len(estimates)
		return r, true
	}
	r := d.overSeries(estimates)
	r.Rounds = rounds(series)
	return r, true
}

// FromSeries estimates a ratio from one log-ratio per series, as for CPU time that is only summed
// over a series. It returns false for no series. With fewer than [MinSeries] the ratio is Open.
func FromSeries(logs []float64, d Design) (Ratio, bool) {
	if len(logs) == 0 {
		return Ratio{}, false
	}
	if len(logs) < MinSeries {
		v := exp(Median(logs))
		return Ratio{Value: v, Open: true, Level: d.Level(), P: 1, Series: len(logs)}, true
	}
	return d.overSeries(logs), true
}

// overSeries estimates a ratio from one log-ratio per series.
func (d Design) overSeries(logs []float64) Ratio {
	if d.Anytime {
		return anytime(logs, d)
	}
	return student(logs, d)
}

// FromPairs estimates a ratio from the log-ratios of independent pairs: the median, with the exact
// signed-rank interval. With pairs of similar runs that interval is a fifth narrower than the one
// from order statistics. It is used to judge the agreement of two tools. False for no pairs.
func FromPairs(logs []float64, d Design) (Ratio, bool) {
	if len(logs) == 0 {
		return Ratio{}, false
	}
	r := fromPairs(logs, d)
	if _, lo, hi, ok := HodgesLehmann(logs, r.Level); ok && !r.Open {
		r.Lo, r.Hi = min(exp(lo), r.Value), max(exp(hi), r.Value)
		r.P = min(1, SignedRank(logs)*float64(d.looks()))
	}
	return r, true
}

func fromPairs(logs []float64, d Design) Ratio {
	r := Ratio{Value: exp(Median(logs)), Level: d.Level(), Rounds: len(logs)}
	lo, hi, ok := medianInterval(logs, r.Level)
	r.P = min(1, signTest(logs)*float64(d.looks()))
	if !ok {
		r.Open, r.P = true, 1
		return r
	}
	r.Lo, r.Hi = exp(lo), exp(hi)
	z := distuv.UnitNormal.Quantile(1 - (1-r.Level)/2)
	r.Detectable = expm1((hi - lo) / 2 * (1 + distuv.UnitNormal.Quantile(power)/z))
	return r
}

// student returns the t interval over the estimates of the series.
func student(medians []float64, d Design) Ratio {
	n, mean, se := float64(len(medians)), mean(medians), math.Sqrt(squaredError(medians))
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}
	level := d.Level()
	factor := t.Quantile(1 - (1-level)/2)
	r := Ratio{
		Value: exp(mean), Lo: exp(mean - factor*se), Hi: exp(mean + factor*se),
		Level: level, Series: len(medians),
		Detectable: expm1((factor + t.Quantile(power)) * se),
	}
	switch {
	case se > 0:
		r.P = min(1, 2*t.CDF(-math.Abs(mean)/se)*float64(d.looks()))
	case mean == 0:
		r.P = 1
	}
	r.Cross = cross(medians, r, d)
	return r
}

// cross computes the second opinion and whether it contradicts r: one test is certain of a
// difference that the other does not see at all, or the robust estimate is outside of the interval.
func cross(medians []float64, r Ratio, d Design) *Cross {
	if len(medians) > maxRank {
		return nil
	}
	est, lo, hi, ok := HodgesLehmann(medians, r.Level)
	c := &Cross{P: SignedRank(medians) * float64(d.looks()), Value: exp(est)}
	c.P = min(1, c.P)
	if ok {
		c.Lo, c.Hi = exp(lo), exp(hi)
	}
	const sure, blind = 0.01, 0.25
	// With few series the signed-rank test cannot be certain, so compare with its smallest p-value.
	reach := max(sure, math.Ldexp(2, -len(medians))*float64(d.looks()))
	c.Disagree = r.P <= sure && c.P > blind || c.P <= reach && r.P > blind || !inRange(c.Value, r.Lo, r.Hi)
	return c
}

// inRange allows for rounding: without variance the interval is a point.
func inRange(v, lo, hi float64) bool { return v >= lo*(1-1e-9) && v <= hi*(1+1e-9) }

// exp and expm1 stay finite, so that an interval of a few absurd values can still be written as
// JSON.
func exp(x float64) float64   { return math.Exp(min(max(x, -maxLog), maxLog)) }
func expm1(x float64) float64 { return math.Expm1(min(max(x, -maxLog), maxLog)) }

const maxLog = 300
