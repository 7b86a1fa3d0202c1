package chart

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The labels of an axis are round, inside it, and no more than there is room for.
func TestRound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		lo := math.Pow(10, 12*rng.Float64()-6)
		hi := lo * (1 + math.Pow(10, 8*rng.Float64()-3))
		most, log := 2+rng.IntN(10), rng.IntN(2) == 0
		vs := round(lo, hi, log, most)
		if len(vs) > most {
			t.Fatalf("%g to %g: %d labels, at most %d", lo, hi, len(vs), most)
		}
		for i, v := range vs {
			if v < lo*(1-1e-6) || v > hi*(1+1e-6) || i > 0 && v <= vs[i-1] {
				t.Fatalf("%g to %g: labels %v", lo, hi, vs)
			}
		}
	}
	for _, c := range []struct {
		lo, hi float64
		log    bool
		most   int
		want   []float64
	}{
		{0.71, 1.44, true, 4, []float64{0.8, 1, 1.2, 1.4}},
		{9e3, 1.1e5, true, 7, []float64{1e4, 2e4, 5e4, 1e5}},
		{0, 62, false, 7, []float64{0, 10, 20, 30, 40, 50, 60}},
		{1, 1e9, true, 4, []float64{1, 1e3, 1e6, 1e9}},
	} {
		got := round(c.lo, c.hi, c.log, c.most)
		if len(got) != len(c.want) {
			t.Errorf("%g to %g: %v, want %v", c.lo, c.hi, got, c.want)
			continue
		}
		for i := range got {
			if math.Abs(got[i]/c.want[i]-1) > 1e-9 && got[i] != c.want[i] {
				t.Errorf("%g to %g: %v, want %v", c.lo, c.hi, got, c.want)
			}
		}
	}
}

// What is not on an axis is drawn at its end, whatever it is.
func TestScaleEnds(t *testing.T) {
	s := newScale(1, 100, true, 50, 250)
	for _, c := range []struct {
		v    float64
		want px
		off  bool
	}{{1, 50, false}, {10, 150, false}, {100, 250, false}, {0, 50, true}, {-3, 50, true}, {1e9, 250, true}, {math.Inf(1), 250, true}} {
		if got := s.position(c.v); math.Abs(float64(got-c.want)) > 1e-6 || s.excludes(c.v) != c.off {
			t.Errorf("%g is at %v (off: %v), want %v (%v)", c.v, got, s.excludes(c.v), c.want, c.off)
		}
	}
	if one := newScale(7, 7, false, 0, 100); one.position(7) != 50 {
		t.Errorf("a single value is at %v, want the middle", one.position(7))
	}
}
