package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv/plain"
)

// seriesOf draws the medians of series, each with its own socket offset.
func seriesOf(rng *rand.Rand, effect float64, n int, heavy bool) []float64 {
	out := make([]float64, n)
	for i := range out {
		socket, noise := 0.01*rng.NormFloat64(), 0.013*rng.NormFloat64()
		if heavy && rng.Float64() < 0.1 {
			noise *= 20
		}
		out[i] = effect + socket + noise
	}
	return out
}

// A user who looks after every series, and stops at the first difference, is wrong in at most one
// run of twenty. With a t interval, the same user is wrong far more often.
func TestAnytimeHoldsAtEveryLook(t *testing.T) {
	plain.SkipShort(t)
	const runs, series = 2000, 40
	for _, heavy := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(3, 4))
		wrong, wrongT := 0, 0
		for range runs {
			all := seriesOf(rng, 0, series, heavy)
			found, foundT := false, false
			for n := MinSeries; n <= series; n++ {
				found = found || capital(all[:n], 0) >= 20
				foundT = foundT || n%4 == 0 && Design{Confidence: 0.95}.overSeries(all[:n]).excludes1()
			}
			if found {
				wrong++
			}
			if foundT {
				wrongT++
			}
		}
		if share := float64(wrong) / runs; share > 0.05 {
			t.Errorf("heavy tails %v: %.3f of runs find a difference where none is", heavy, share)
		}
		if share := float64(wrongT) / runs; !heavy && share < 0.08 {
			t.Errorf("a t interval looked at often is wrong in %.3f of runs only: the runs show nothing", share)
		}
	}
}

// A real difference is found after a bounded number of series in the median.
func TestAnytimeFinds(t *testing.T) {
	for _, c := range []struct {
		effect float64
		most   float64 // series
	}{{0.10, 7}, {0.05, 8}, {0.03, 10}} {
		rng := rand.New(rand.NewPCG(5, 6))
		var took []float64
		for range 400 {
			all, n := seriesOf(rng, c.effect, 60, false), MinSeries
			for n < len(all) {
				r := Design{Confidence: 0.95, Anytime: true}.overSeries(all[:n])
				if r.excludes1() {
					break
				}
				n++
			}
			took = append(took, float64(n))
		}
		slices.Sort(took)
		if m := Median(took); m > c.most {
			t.Errorf("a difference of %g %% takes %g series in the median, at most %g", 100*c.effect, m, c.most)
		}
	}
}

// The interval covers the truth at every look, and becomes narrow enough for "same".
func TestAnytimeInterval(t *testing.T) {
	plain.SkipShort(t)
	const runs, series = 200, 40
	rng := rand.New(rand.NewPCG(7, 8))
	missed, same := 0, 0
	for range runs {
		effect := 0.2 * rng.NormFloat64()
		all := seriesOf(rng, effect, series, false)
		miss := false
		for n := MinSeries; n <= series; n++ {
			r := anytime(all[:n], Design{Confidence: 0.95, Anytime: true})
			if r.Open {
				if n > 7 {
					t.Fatalf("%d series and no interval", n)
				}
				continue
			}
			miss = miss || effect < math.Log(r.Lo) || effect > math.Log(r.Hi)
			if r.excludes1() && r.P > 0.05 {
				t.Fatalf("after %d series the interval [%g, %g] does not agree with p %g", n, r.Lo, r.Hi, r.P)
			}
		}
		if miss {
			missed++
		}
		if r := anytime(seriesOf(rng, 0, series, false), Design{Confidence: 0.95, Anytime: true}); insideMargin(r, 0.03) {
			same++
		}
	}
	if share := float64(missed) / runs; share > 0.05 {
		t.Errorf("%.3f of intervals miss the truth at some look", share)
	}
	if share := float64(same) / runs; share < 0.8 {
		t.Errorf("after %d series only %.2f of equal paths are the same within 3 %%", series, share)
	}
}

func TestAnytimeOfFew(t *testing.T) {
	d := Design{Confidence: 0.95, Anytime: true}
	for _, logs := range [][]float64{{0, 0, 0}, {1, 1, 1}, {math.MaxFloat64, 1, 2}, {5, 5, 5, 5, 5, 5, 5, 5}} {
		r := d.overSeries(logs)
		if math.IsNaN(r.Value) || math.IsNaN(r.P) || r.P < 0 || r.P > 1 || !r.Open && !(r.Lo <= r.Value && r.Value <= r.Hi) {
			t.Errorf("of %v: %+v", logs, r)
		}
	}
	if r := d.overSeries([]float64{5, 5, 5, 5, 5, 5, 5, 5}); !r.excludes1() {
		t.Errorf("eight equal series: %+v", r)
	}
}

func TestEBH(t *testing.T) {
	// Four tests: 1/e of the k-th smallest is compared with alpha k/4.
	got := EBH([]float64{0.04, 0.005, 0.9, 0.02})
	want := []float64{0.04 * 4 / 3, 0.02, 0.9, 0.04}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-12 {
			t.Errorf("EBH gives %v, want %v", got, want)
			break
		}
	}
	// On average, at most a share alpha of the discoveries is false.
	rng := rand.New(rand.NewPCG(9, 10))
	share := 0.0
	const families = 200
	for range families {
		var inverse []float64
		for i := range 10 {
			effect := 0.0
			if i < 5 {
				effect = 0.08
			}
			inverse = append(inverse, anytime(seriesOf(rng, effect, 14, false), Design{Confidence: 0.95}).P)
		}
		found, wrong := 0.0, 0.0
		for i, v := range EBH(inverse) {
			if v <= 0.05 {
				found++
				if i >= 5 {
					wrong++
				}
			}
		}
		if found > 0 {
			share += wrong / found / families
		}
	}
	if share > 0.05 {
		t.Errorf("%.3f of what is found is not there", share)
	}
}
