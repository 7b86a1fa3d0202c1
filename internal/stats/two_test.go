package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv/plain"
)

// roundsOf generates series of rounds around an effect.
func roundsOf(rng *rand.Rand, effect, noise float64, series int) [][]float64 {
	out := make([][]float64, series)
	for i := range out {
		socket := 0.005 * rng.NormFloat64()
		for range 12 {
			out[i] = append(out[i], effect+socket+noise*rng.NormFloat64())
		}
	}
	return out
}

// Two records of one path cover 1 in 19 of 20 pairs, whatever the noise of each, and a difference
// of 5 % is found.
func TestQuotientCoverage(t *testing.T) {
	plain.SkipShort(t)
	rng := rand.New(rand.NewPCG(11, 12))
	for _, anytime := range []bool{false, true} {
		const pairs = 1000
		d := Design{Confidence: 0.95, Anytime: anytime}
		missed, found := 0, 0
		for range pairs {
			a := roundsOf(rng, 0.3, 0.02, 8+rng.IntN(8))
			if r, ok := Quotient(a, roundsOf(rng, 0.3, 0.05, 8+rng.IntN(8)), d); !ok || r.excludes1() {
				missed++
			}
			r, _ := Quotient(a, roundsOf(rng, 0.3+math.Log(1.05), 0.05, 12), d)
			if r.excludes1() && r.Value > 1 {
				found++
			}
			if r.excludes1() != (r.P <= 0.05) || r.Lo > r.Value || r.Hi < r.Value {
				t.Fatalf("interval and p-value do not agree: %+v", r)
			}
		}
		if share := float64(missed) / pairs; share > 0.065 {
			t.Errorf("anytime %v: %.3f of equal pairs are found to differ", anytime, share)
		}
		if share := float64(found) / pairs; share < 0.9 {
			t.Errorf("anytime %v: a difference of 5 %% is found in %.3f of pairs", anytime, share)
		}
	}
}

// A run that could stop at several looks has its p-values multiplied by their number.
func TestQuotientOfLooks(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	a, b := roundsOf(rng, 0, 0.02, 8), roundsOf(rng, 0.01, 0.02, 8)
	one, _ := Quotient(a, b, Design{Confidence: 0.95, Looks: 1})
	three, _ := Quotient(a, b, Design{Confidence: 0.95, Looks: 3})
	if one.P > 0.2 || !almostEqual(three.P, 3*one.P) {
		t.Errorf("p %v of one look, and %v of three", one.P, three.P)
	}
}

func TestQuotientOfFew(t *testing.T) {
	d := Design{Confidence: 0.95}
	if _, ok := Quotient(nil, [][]float64{{1}}, d); ok {
		t.Error("a ratio to nothing")
	}
	if r, ok := Quotient([][]float64{{0}, {0}}, [][]float64{{1}, {1}, {1}}, d); !ok || !r.Open || r.P != 1 {
		t.Errorf("of two series: %+v", r)
	}
	same := [][]float64{{0.1}, {0.1}, {0.1}}
	if r, _ := Quotient(same, same, d); r.Open || r.Lo != 1 || r.Hi != 1 || r.P != 1 {
		t.Errorf("of series without noise: %+v", r)
	}
}
