package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv/plain"
)

// levels are models of how a path's log ratio varies between runs.
var levels = map[string]func(*rand.Rand) float64{
	"normal":        normal,
	"heavy tails":   heavy,
	"tenth spoiled": spoiled,
	"skewed":        func(r *rand.Rand) float64 { return 0.02 * r.ExpFloat64() },
}

// runLength counts the values up to an alarm, or up to a limit.
func runLength(r *rand.Rand, threshold float64, most int, value func(n int) float64) int {
	d := ChangeDetector{Threshold: threshold}
	for n := range most {
		if _, found := d.Add(value(n)); found {
			return n + 1
		}
	}
	return most
}

// The mean number of values to a false alarm is at least the threshold, for every distribution.
func TestChangeFalseAlarms(t *testing.T) {
	plain.SkipShort(t)
	const threshold, runs = 100, 300
	series := map[string]func(*rand.Rand) func() float64{ // a new stream for each run
		"constant": func(r *rand.Rand) func() float64 {
			value := normal(r) // ties are broken with a seed from the values
			return func() float64 { return value }
		},
		"three levels": func(r *rand.Rand) func() float64 {
			step := normal(r)
			return func() float64 { return step * float64(r.IntN(3)) }
		},
	}
	for name, level := range levels {
		series[name] = func(r *rand.Rand) func() float64 { return func() float64 { return level(r) } }
	}
	for name, begin := range series {
		r := rand.New(rand.NewPCG(1, 7))
		sum := 0
		for range runs {
			// A run without an alarm counts with its length, which underestimates it.
			next := begin(r)
			sum += runLength(r, threshold, 10*threshold, func(int) float64 { return next() })
		}
		mean := float64(sum) / runs
		t.Logf("%s: a false alarm after %.0f values in the mean", name, mean)
		if mean < threshold {
			t.Errorf("%s: a false alarm after %.0f values in the mean, at least %d were promised", name, mean, threshold)
		}
	}
}

// A change is detected soon, with its time and size.
func TestChangeFound(t *testing.T) {
	const threshold, runs = 8000, 100 // for eight ratios, one false alarm in a thousand runs
	for _, c := range []struct {
		before, most int // runs before the change, and the maximum median delay
		effect       float64
	}{
		{20, 7, 0.10},
		{50, 5, 0.10},
		{50, 5, -0.10},
		{100, 12, 0.03},
	} {
		for name, level := range levels {
			r := rand.New(rand.NewPCG(2, 7))
			var delays []float64
			early := 0
			for range runs {
				d := ChangeDetector{Threshold: threshold}
				for n := range 500 {
					value := level(r)
					if n >= c.before {
						value += c.effect
					}
					_, found := d.Add(value)
					if !found {
						continue
					}
					if n < c.before {
						early++
						break
					}
					delays = append(delays, float64(n-c.before+1))
					break
				}
			}
			if early > runs/20 || len(delays) < runs*9/10 {
				t.Errorf("%s: %d alarms before the change of %v, %d after it", name, early, c.effect, len(delays))
				continue
			}
			median := Median(delays)
			t.Logf("%s: %v after %d values is found after %v", name, c.effect, c.before, median)
			if median > float64(c.most) && name == "normal" {
				t.Errorf("%s: a change of %v after %d values is found after %v, at most %d were wanted", name, c.effect, c.before, median, c.most)
			}
		}
	}
}

// The detector reports the time of a change, starts anew after it, and ignores NaN.
func TestChangeBeginsAnew(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 7))
	d := ChangeDetector{Threshold: 1000}
	for range 30 {
		d.Add(0.01 * r.NormFloat64())
	}
	d.Add(math.NaN())
	d.Add(math.Inf(1))
	if len(d.values) != 30 {
		t.Errorf("it has taken %d values, want 30", len(d.values))
	}
	for n := 1; ; n++ {
		s, found := d.Add(0.3 + 0.01*r.NormFloat64())
		if !found && n < 20 {
			continue
		}
		if !found || s.Since != n || math.Abs(s.Before) > 0.02 || math.Abs(s.After-0.3) > 0.02 {
			t.Errorf("after %d values: %+v, %v", n, s, found)
		}
		break
	}
	if len(d.values) != 0 || d.Evidence() != 0 {
		t.Errorf("it has not begun anew: %d values, evidence %v", len(d.values), d.Evidence())
	}
}

// A detector that has run for long keeps a bounded number of bets, and still finds a change and its
// time.
func TestChangeAfterLong(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 7))
	d := ChangeDetector{Threshold: 1e7}
	const calm = mostStarts + 500
	for range calm {
		if _, found := d.Add(0.01 * r.NormFloat64()); found {
			t.Fatal("a false alarm")
		}
	}
	if len(d.starts) != mostStarts || len(d.values) != calm {
		t.Fatalf("%d bets on %d values", len(d.starts), len(d.values))
	}
	for n := 1; n <= 20; n++ {
		s, found := d.Add(0.3 + 0.01*r.NormFloat64())
		if !found {
			continue
		}
		if s.Since != n || math.Abs(s.Before) > 0.02 || math.Abs(s.After-0.3) > 0.02 {
			t.Errorf("after %d values: %+v", n, s)
		}
		return
	}
	t.Error("a change was not found")
}

// No bettor gains on average if all ranks are equally likely.
func TestBetsAreFair(t *testing.T) {
	for n := 1; n < 40; n++ {
		for expected := 1; expected <= n; expected++ {
			sum := 0.0
			for at := range n {
				sum += payoff(at < expected, expected, n)
			}
			if mean := sum / float64(n); math.Abs(mean-1) > 1e-9 {
				t.Errorf("%d of %d places pay %v in the mean", expected, n, mean)
			}
		}
	}
}
