package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv/plain"
)

// noise is a model of how slices vary, in log units.
type noise struct {
	name   string
	slice  func(*rand.Rand) float64 // independent for each slice
	slow   float64                  // drift of the machine, common to all arms
	phi    float64                  // its autocorrelation from one slice to the next
	socket float64                  // offset of an arm in a series
}

func normal(r *rand.Rand) float64 { return 0.02 * r.NormFloat64() }

func heavy(r *rand.Rand) float64 {
	chi := 0.0
	for range 3 {
		z := r.NormFloat64()
		chi += z * z
	}
	return 0.02 * r.NormFloat64() / math.Sqrt(chi/3)
}

func spoiled(r *rand.Rand) float64 {
	if r.Float64() < 0.1 {
		return 0.02*r.NormFloat64() + 0.3 + 0.5*r.Float64()
	}
	return 0.02 * r.NormFloat64()
}

var noises = []noise{
	{name: "normal", slice: normal, socket: 0.005},
	{name: "normal, no socket offsets", slice: normal},
	{name: "t3", slice: heavy, socket: 0.005},
	{name: "a tenth spoiled", slice: spoiled, socket: 0.005},
	{name: "autocorrelated", slice: normal, slow: 0.25, phi: 0.9, socket: 0.005},
	{name: "autocorrelated and spoiled", slice: spoiled, slow: 0.3, phi: 0.97, socket: 0.01},
}

// sample generates log-ratios of an arm to its baseline, by series, like a real run: in each round
// four arms run in random order while the machine drifts from slice to slice.
func (n noise) sample(r *rand.Rand, series, rounds int, effect float64) [][]float64 {
	out := make([][]float64, series)
	drift := n.slow * r.NormFloat64()
	for s := range out {
		offset := n.socket * math.Sqrt2 * r.NormFloat64()
		for range rounds {
			var slots [4]float64
			for i := range slots {
				drift = n.phi*drift + n.slow*math.Sqrt(1-n.phi*n.phi)*r.NormFloat64()
				slots[i] = drift + n.slice(r)
			}
			order := r.Perm(len(slots))
			out[s] = append(out[s], effect+offset+slots[order[0]]-slots[order[1]])
		}
	}
	return out
}

const sims = 1500

var design = Design{Confidence: 0.95}

// share returns how often f holds.
func share(n int, f func(r *rand.Rand) bool) float64 {
	r := rand.New(rand.NewPCG(1, 2))
	hits := 0
	for range n {
		if f(r) {
			hits++
		}
	}
	return float64(hits) / float64(n)
}

// The interval must cover the truth as often as it claims. Overcoverage is allowed for heavy tails.
func TestCoverage(t *testing.T) {
	plain.SkipShort(t)
	for _, n := range noises {
		for _, series := range []int{3, 6} {
			got := share(sims, func(r *rand.Rand) bool {
				est, _ := FromRounds(n.sample(r, series, 12, math.Log(1.05)), design)
				return est.Lo <= 1.05 && 1.05 <= est.Hi
			})
			t.Logf("%-28s %2d series: %.1f %%", n.name, series, 100*got)
			if got < 0.935 || got > 0.975 {
				t.Errorf("%s, %d series: the 95 %% interval holds the truth in %.1f %%", n.name, series, 100*got)
			}
		}
	}
}

// Two identical arms must not be told apart. The margin is nearly 0, so that "same" cannot hide a
// difference.
func TestFalseAlarms(t *testing.T) {
	plain.SkipShort(t)
	for _, n := range noises {
		alarm := share(sims, func(r *rand.Rand) bool {
			v := judgeOne(n.sample(r, 6, 12, 0), n.sample(r, 6, 12, 0), 1e-6).Verdict
			return v == Faster || v == Slower
		})
		invalid := share(sims, func(r *rand.Rand) bool {
			f, _ := NewFloor(n.sample(r, 6, 12, 0), design, 1e-6)
			return f.Invalid
		})
		t.Logf("%-28s false alarms %.1f %%, cells thrown away %.1f %%", n.name, 100*alarm, 100*invalid)
		if alarm > 0.05 {
			t.Errorf("%s: %.1f %% of identical pairs are told apart", n.name, 100*alarm)
		}
		if invalid > 0.02 {
			t.Errorf("%s: %.1f %% of sound cells are thrown away", n.name, 100*invalid)
		}
	}
}

func judgeOne(arm, copy [][]float64, margin float64) Judgement {
	est, _ := FromRounds(arm, design)
	floor, _ := NewFloor(copy, design, margin)
	return Judge(est, est.P, Criterion{Margin: margin, LowerIsBetter: true, Alpha: 0.05, Floor: &floor})
}

// A difference of 3 % must be detected with a margin of 1 % where the noise allows it, and a
// difference of 0 must be called "same".
func TestPower(t *testing.T) {
	n := noises[0]
	slower := share(1000, func(r *rand.Rand) bool {
		return judgeOne(n.sample(r, 8, 12, math.Log(1.03)), n.sample(r, 8, 12, 0), 0.01).Verdict == Slower
	})
	same := share(1000, func(r *rand.Rand) bool {
		return judgeOne(n.sample(r, 8, 12, 0), n.sample(r, 8, 12, 0), 0.03).Verdict == Equivalent
	})
	t.Logf("slower by 3 %%: %.1f %%; same: %.1f %%", 100*slower, 100*same)
	if slower < 0.95 {
		t.Errorf("a difference of 3 %% is seen in %.1f %% only", 100*slower)
	}
	if same < 0.95 {
		t.Errorf("identical arms are called the same in %.1f %% only", 100*same)
	}
}

// Detectable must be detected with the stated probability.
func TestDetectable(t *testing.T) {
	n := noises[1]
	untilDecided := Design{Confidence: design.Confidence, Anytime: true}
	against := func(d Design) func(r *rand.Rand, effect float64) Ratio {
		return func(r *rand.Rand, effect float64) Ratio {
			est, _ := Quotient(n.sample(r, 12, 12, 0), n.sample(r, 12, 12, effect), d)
			return est
		}
	}
	alone := func(series int, d Design) func(r *rand.Rand, effect float64) Ratio {
		return func(r *rand.Rand, effect float64) Ratio {
			est, _ := FromRounds(n.sample(r, series, 12, effect), d)
			return est
		}
	}
	for name, estimate := range map[string]func(r *rand.Rand, effect float64) Ratio{
		"one run": alone(6, design), "a run until it is decided": alone(12, untilDecided),
		"two runs": against(design), "two runs until they are decided": against(untilDecided),
	} {
		promised := 0.0
		const trials = 400
		r := rand.New(rand.NewPCG(3, 4))
		for range trials {
			promised += math.Log1p(estimate(r, 0).Detectable) / trials
		}
		seen := share(1000, func(r *rand.Rand) bool {
			est := estimate(r, promised)
			return est.excludes1()
		})
		if seen < 0.72 || seen > 0.97 {
			t.Errorf("%s: a difference of the size called detectable is seen in %.1f %%, want about 80 %%", name, 100*seen)
		}
	}
}

// A run that stops at the first look at which its interval is narrow, or excludes 1, must not raise
// more false alarms than one that runs to its end.
func TestEarlyStop(t *testing.T) {
	plain.SkipShort(t)
	looks := Looks(12)
	d := Design{Confidence: 0.95, Looks: len(looks)}
	for _, n := range noises {
		alarm := share(sims, func(r *rand.Rand) bool {
			data := n.sample(r, 12, 12, 0)
			for _, at := range looks {
				// The worst case: stop as soon as there seems to be a difference.
				if est, _ := FromRounds(data[:at], d); est.excludes1() {
					return true
				}
			}
			return false
		})
		t.Logf("%-28s %.1f %%", n.name, 100*alarm)
		if alarm > 0.055 {
			t.Errorf("%s: %.1f %% false alarms over %d looks", n.name, 100*alarm, len(looks))
		}
	}
}

// A table of twelve comparisons keeps the probability of any false alarm.
func TestHolmFamily(t *testing.T) {
	plain.SkipShort(t)
	alarm := share(1500, func(r *rand.Rand) bool {
		ps := make([]float64, 12)
		for i := range ps {
			est, _ := FromRounds(noises[0].sample(r, 6, 12, 0), design)
			ps[i] = est.P
		}
		for _, p := range Holm(ps) {
			if p < 0.05 {
				return true
			}
		}
		return false
	})
	t.Logf("any of 12: %.1f %%", 100*alarm)
	if alarm > 0.065 {
		t.Errorf("%.1f %% of tables have a false alarm", 100*alarm)
	}
}

// The second opinion must rarely contradict on ordinary data.
func TestCrossRarelyDisagrees(t *testing.T) {
	odd := share(sims, func(r *rand.Rand) bool {
		est, _ := FromRounds(noises[0].sample(r, 6, 12, 0.01), design)
		return est.Cross.Disagree
	})
	if odd > 0.01 {
		t.Errorf("the rank test disagrees in %.1f %%", 100*odd)
	}
}

// The interval of a percentile must cover the truth about as often as it claims, although the
// slices drift together.
func TestPercentileCoverage(t *testing.T) {
	plain.SkipShort(t)
	const level, shift = 0.9, 0.02
	got := share(100, func(r *rand.Rand) bool {
		var hs []Histogram
		drift := 0.0
		for range 72 {
			drift = 0.4*drift + shift*math.Sqrt(1-0.16)*r.NormFloat64()
			counts := map[int64]int64{}
			for range 100 {
				counts[int64(10000*math.Exp(drift+0.1*r.NormFloat64()))]++
			}
			hs = append(hs, histogramOf(counts))
		}
		p := Percentiles(hs, []float64{0.5}, Bootstrap{Resamples: 200, Seed: r.Uint64(), Level: level})[0]
		return p.Lo <= 10000 && 10000 <= p.Hi
	})
	t.Logf("p50: %.1f %%", 100*got)
	if got < 0.78 || got > 0.97 {
		t.Errorf("the %.0f %% interval of p50 holds the truth in %.1f %%", 100*level, 100*got)
	}
}
