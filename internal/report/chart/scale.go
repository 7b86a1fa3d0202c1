package chart

import (
	"math"
	"strconv"
)

// Axis is one side of a figure.
type Axis struct {
	Label  string
	Log    bool
	Format func(float64) string // of the labels; nil: the number
	Ticks  []Tick               // in place of round numbers
}

// Tick is a place on an axis that has a name.
type Tick struct {
	Value float64
	Text  string
}

func (a Axis) format(v float64) string {
	if a.Format != nil {
		return a.Format(v)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// scale maps values to pixels.
type scale struct {
	lo, hi   float64 // values, lo < hi; of their logarithms with log
	from, to float64 // pixels
	log      bool
}

// farthest is how far from 1 an axis goes: a factor, or from 0 a value.
const farthest = 1e30

// newScale covers lo to hi, and a little more where they are equal.
func newScale(lo, hi float64, log bool, from, to float64) scale {
	if log {
		lo, hi = math.Log(min(max(lo, 1/farthest), farthest)), math.Log(min(max(hi, 1/farthest), farthest))
	} else {
		lo, hi = max(lo, -farthest), min(hi, farthest)
	}
	if !(hi > lo) {
		pad := max(math.Abs(lo)*0.05, 0.05)
		lo, hi = lo-pad, lo+pad
	}
	return scale{lo, hi, from, to, log}
}

// widen leaves some of the range free on both sides.
func (s scale) widen(share float64) scale {
	more := (s.hi - s.lo) * share
	s.lo, s.hi = s.lo-more, s.hi+more
	return s
}

// position is where a value stands; what is beyond the axis stands at its end.
func (s scale) position(v float64) px {
	if s.log {
		v = math.Log(max(v, math.SmallestNonzeroFloat64))
	}
	share := min(max((v-s.lo)/(s.hi-s.lo), 0), 1)
	return px(s.from + share*(s.to-s.from))
}

// excludes tells that a value is off the axis.
func (s scale) excludes(v float64) bool {
	if s.log {
		v = math.Log(max(v, math.SmallestNonzeroFloat64))
	}
	return v < s.lo || v > s.hi
}

// ends are the values at the ends.
func (s scale) ends() (lo, hi float64) {
	if s.log {
		return math.Exp(s.lo), math.Exp(s.hi)
	}
	return s.lo, s.hi
}

// fits tells that an axis can have a value.
func (a Axis) fits(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!a.Log || v > 0)
}

// ticks places the labels of an axis: at most so many, and none over another.
func (s scale) ticks(a Axis, most int) []tick {
	var out []tick
	if a.Ticks != nil {
		for _, t := range a.Ticks {
			if !s.excludes(t.Value) {
				out = append(out, tick{s.position(t.Value), t.Text})
			}
		}
		return thinned(out, most)
	}
	lo, hi := s.ends()
	for _, v := range round(lo, hi, s.log, most) {
		out = append(out, tick{s.position(v), a.format(v)})
	}
	return out
}

// thinned keeps every n-th, so that at most so many are left.
func thinned(ts []tick, most int) []tick {
	step := (len(ts) + max(1, most) - 1) / max(1, most)
	var out []tick
	for i := 0; i < len(ts); i += max(1, step) {
		out = append(out, ts[i])
	}
	return out
}

// round finds round numbers from lo to hi: at least two where there are such, at
// most so many. On a logarithmic axis of a decade or more they are 1, 2 and 5 of
// each decade, or whole decades.
func round(lo, hi float64, log bool, most int) []float64 {
	most = max(2, most)
	if log && hi/lo >= 10 {
		for _, of := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
			if vs := decades(lo, hi, of, 1); len(vs) <= most {
				return vs
			}
		}
		for every := 2; ; every++ {
			if vs := decades(lo, hi, []float64{1}, every); len(vs) <= most {
				return vs
			}
		}
	}
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/float64(most))))
	for _, times := range []float64{1, 2, 5, 10, 20} {
		var vs []float64
		s := step * times
		for n := math.Ceil(lo/s - 1e-9); n*s <= hi+s*1e-9 && len(vs) <= most; n++ {
			vs = append(vs, n*s+0) // not -0
		}
		if len(vs) <= most {
			return vs
		}
	}
	return nil
}

// decades lists these multiples of every n-th power of ten.
func decades(lo, hi float64, of []float64, every int) []float64 {
	var vs []float64
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		if int(e)%every != 0 {
			continue
		}
		for _, m := range of {
			if v := m * math.Pow(10, e); v >= lo*(1-1e-9) && v <= hi*(1+1e-9) {
				vs = append(vs, v)
			}
		}
	}
	return vs
}
