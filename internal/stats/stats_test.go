package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func almostEqual(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

func TestMedian(t *testing.T) {
	x := []float64{3, 1, 2}
	if Median(x) != 2 || !slices.Equal(x, []float64{3, 1, 2}) {
		t.Errorf("median %v, and the argument is now %v", Median(x), x)
	}
	if Median([]float64{4, 1, 3, 2}) != 2.5 || !math.IsNaN(Median(nil)) {
		t.Error("median of an even number or of nothing is wrong")
	}
}

// The ranks match any table of order-statistic intervals.
func TestMedianInterval(t *testing.T) {
	for _, tc := range []struct {
		n     int
		level float64
		rank  int // 1: smallest and largest; 0: no interval
	}{{5, 0.95, 0}, {6, 0.95, 1}, {8, 0.95, 1}, {9, 0.95, 2}, {10, 0.95, 2}, {12, 0.95, 3}, {20, 0.95, 6}, {7, 0.99, 0}, {8, 0.99, 1}, {72, 0.95, 28}} {
		x := make([]float64, tc.n)
		for i := range x {
			x[i] = float64(tc.n - i)
		}
		lo, hi, ok := medianInterval(x, tc.level)
		if ok != (tc.rank > 0) || ok && (lo != float64(tc.rank) || hi != float64(tc.n+1-tc.rank)) {
			t.Errorf("n %d, level %v: %v..%v %v, want rank %d", tc.n, tc.level, lo, hi, ok, tc.rank)
		}
	}
}

// signedRankBrute tries all sign patterns.
func signedRankBrute(x []float64) float64 {
	n := len(x)
	ranks := make([]float64, n)
	for i, v := range x {
		below, equal := 0, 0
		for _, w := range x {
			switch {
			case math.Abs(w) < math.Abs(v):
				below++
			case math.Abs(w) == math.Abs(v):
				equal++
			}
		}
		ranks[i] = float64(below) + float64(equal+1)/2
	}
	sum := func(mask int) (plus float64) {
		for i, r := range ranks {
			if mask>>i&1 == 1 {
				plus += r
			}
		}
		return plus
	}
	own, total := 0, sum(1<<n-1)
	for i, v := range x {
		if v > 0 {
			own |= 1 << i
		}
	}
	extreme, hits := math.Abs(sum(own)-total/2), 0
	for mask := range 1 << n {
		if math.Abs(sum(mask)-total/2) >= extreme-1e-12 {
			hits++
		}
	}
	return float64(hits) / float64(int(1)<<n)
}

func TestSignedRankIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		x := make([]float64, 1+r.IntN(10))
		for i := range x {
			x[i] = float64(r.IntN(6)+1) * float64(1-2*r.IntN(2)) // with ties
		}
		if got, want := SignedRank(x), min(1, signedRankBrute(x)); !almostEqual(got, want) {
			t.Fatalf("%v: p %v, by trying all signs %v", x, got, want)
		}
	}
	if p := SignedRank([]float64{1, 2, 3, 4, 5, 6}); !almostEqual(p, 2.0/64) {
		t.Errorf("six of one sign: %v, want 2/64", p)
	}
	if SignedRank([]float64{0, 0}) != 1 || !math.IsNaN(SignedRank(make([]float64, 0, 1)[:0:0])) && SignedRank(nil) != 1 {
		t.Error("nothing but zeros must be no evidence")
	}
}

// Interval and test are consistent: the interval excludes 0 exactly if the test rejects.
func TestHodgesLehmannAgreesWithTest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for range 300 {
		x := make([]float64, 6+r.IntN(9))
		for i := range x {
			x[i] = r.NormFloat64() + 0.6
		}
		est, lo, hi, ok := HodgesLehmann(x, 0.95)
		if !ok || est < lo || est > hi {
			t.Fatalf("%v: %v not in %v..%v (%v)", x, est, lo, hi, ok)
		}
		if out, p := lo > 0 || hi < 0, SignedRank(x); out != (p <= 0.05) {
			t.Fatalf("%v: interval %v..%v, but p %v", x, lo, hi, p)
		}
	}
	if _, _, _, ok := HodgesLehmann(make([]float64, 5), 0.95); ok {
		t.Error("five values cannot give a 95 % interval")
	}
}

// Student's interval matches textbook numbers: mean 0, sd 1, n 6.
func TestStudent(t *testing.T) {
	x := []float64{-1.25, -0.75, -0.25, 0.25, 0.75, 1.25}
	var series [][]float64
	for _, v := range x {
		series = append(series, []float64{v})
	}
	est, ok := FromRounds(series, design)
	se := math.Sqrt(4.375 / 5 / 6)
	if want := math.Exp(2.570582 * se); !ok || est.Value != 1 || math.Abs(est.Hi-want) > 1e-5 || math.Abs(est.Lo*want-1) > 1e-5 {
		t.Errorf("%+v, want 1 within a factor of %v", est, want)
	}
	if est.P != 1 || est.Series != 6 || est.WithinSeries {
		t.Errorf("%+v", est)
	}
}

func TestFewSeries(t *testing.T) {
	round := []float64{.1, .11, .12, .09, .1, .1, .1, .1}
	one, _ := FromRounds([][]float64{round, nil}, design)
	if !one.WithinSeries || one.Open || one.Series != 1 || one.Rounds != 8 || !one.excludes1() {
		t.Errorf("one series: %+v", one)
	}
	few, _ := FromRounds([][]float64{round[:4]}, design)
	if !few.Open || few.excludes1() {
		t.Errorf("four rounds cannot give an interval: %+v", few)
	}
	if _, ok := FromRounds(nil, design); ok {
		t.Error("an estimate from nothing")
	}
	if r, ok := FromSeries([]float64{.1, .2}, design); !ok || !r.Open {
		t.Errorf("two values over series: %+v", r)
	}
	equal, _ := FromRounds([][]float64{{0}, {0}, {0}}, design)
	if equal.P != 1 || equal.Lo != 1 || equal.Hi != 1 {
		t.Errorf("no spread at all: %+v", equal)
	}
	far, _ := FromRounds([][]float64{{300}, {-300}, {9}}, Design{Confidence: .999999})
	if math.IsInf(far.Hi, 0) || math.IsInf(far.Detectable, 0) || math.IsNaN(far.Value) {
		t.Errorf("absurd values must stay finite: %+v", far)
	}
}

func TestJudge(t *testing.T) {
	floor := func(size float64, invalid bool) *Floor { return &Floor{Size: size, Invalid: invalid} }
	for _, tc := range []struct {
		name   string
		r      Ratio
		p      float64
		lower  bool
		floor  *Floor
		want   Verdict
		reason Reason
	}{
		{"inside", Ratio{Value: 1.01, Lo: 1.005, Hi: 1.02}, 0, true, nil, Equivalent, ""},
		{"edge of the margin", Ratio{Value: 1, Lo: 0.97, Hi: 1.03}, 1, true, nil, Equivalent, ""},
		{"slower", Ratio{Value: 1.1, Lo: 1.05, Hi: 1.15}, 0, true, floor(.01, false), Slower, ""},
		{"faster", Ratio{Value: 1.1, Lo: 1.05, Hi: 1.15}, 0, false, floor(.01, false), Faster, ""},
		{"below", Ratio{Value: 0.9, Lo: 0.85, Hi: 0.95}, 0, true, nil, Faster, ""},
		{"wide", Ratio{Value: 1.1, Lo: 0.98, Hi: 1.22}, 1, true, nil, CannotTell, TooWide},
		{"corrected away", Ratio{Value: 1.1, Lo: 1.01, Hi: 1.2}, 0.2, true, nil, CannotTell, BelowHolm},
		{"under the floor", Ratio{Value: 1.04, Lo: 1.035, Hi: 1.045}, 0, true, floor(.05, false), CannotTell, BelowNoise},
		{"same needs no floor", Ratio{Value: 1, Lo: .99, Hi: 1.01}, 1, true, floor(.05, false), Equivalent, ""},
		{"bad floor", Ratio{Value: 2, Lo: 1.9, Hi: 2.1}, 0, true, floor(.2, true), NotJudged, BadFloor},
		{"open", Ratio{Value: 2, Open: true}, 1, true, nil, CannotTell, TooFew},
	} {
		j := Judge(tc.r, tc.p, Criterion{Margin: 0.03, LowerIsBetter: tc.lower, Alpha: 0.05, Floor: tc.floor})
		if j.Verdict != tc.want || j.Reason != tc.reason {
			t.Errorf("%s: %q (%q), want %q (%q)", tc.name, j.Verdict, j.Reason, tc.want, tc.reason)
		}
	}
}

func TestFloor(t *testing.T) {
	series := func(center float64) (out [][]float64) {
		for i := range 6 {
			out = append(out, []float64{center + 0.001*float64(i-2)})
		}
		return out
	}
	f, ok := NewFloor(series(0), design, 0.03)
	if !ok || f.Invalid || f.Size <= 0 || f.Size > 0.01 {
		t.Errorf("sound copy: %+v", f)
	}
	if f, _ := NewFloor(series(0.1), design, 0.03); !f.Invalid || f.Size < 0.1 {
		t.Errorf("copy that is 10 %% off: %+v", f)
	}
	if f, _ := NewFloor(series(0.02), design, 0.03); f.Invalid {
		t.Errorf("a copy that is off by less than the margin is the same: %+v", f)
	}
	// Two identical arms differ by their sockets, which one or two series cannot show.
	rounds := []float64{0.049, 0.05, 0.051, 0.05, 0.049, 0.051, 0.05, 0.05, 0.049, 0.051, 0.05, 0.05}
	for _, few := range [][][]float64{{rounds}, {rounds, rounds}} {
		f, ok := NewFloor(few, design, 0.03)
		if !ok || f.Invalid || f.Size != 0 || !f.Ratio.Open {
			t.Errorf("of %d series: %+v", len(few), f)
		}
	}
}

func TestHolm(t *testing.T) {
	got := Holm([]float64{0.04, 0.01, 0.03, 0.005})
	for i, want := range []float64{0.06, 0.03, 0.06, 0.02} {
		if !almostEqual(got[i], want) {
			t.Errorf("%d: %v, want %v", i, got[i], want)
		}
	}
	if len(Holm(nil)) != 0 || Holm([]float64{0.9, 0.9})[0] != 1 {
		t.Error("Holm of nothing, or beyond 1")
	}
}

func TestLooks(t *testing.T) {
	for n := range 60 {
		looks := Looks(n)
		if !slices.IsSorted(looks) || looks[len(looks)-1] != max(1, n) || len(slices.Compact(slices.Clone(looks))) != len(looks) || len(looks) > 3 {
			t.Errorf("%d series: %v", n, looks)
		}
		if len(looks) > 1 && looks[0] < MinSeries+1 {
			t.Errorf("%d series: look at %d, too early", n, looks[0])
		}
	}
}

func TestLag1AndGeoMean(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	slow, white := make([]float64, 5000), make([]float64, 5000)
	for i := range slow {
		white[i] = r.NormFloat64()
		if i > 0 {
			slow[i] = 0.7*slow[i-1] + r.NormFloat64()
		}
	}
	if v := Lag1([][]float64{slow}); math.Abs(v-0.7) > 0.05 {
		t.Errorf("lag 1 of an AR(0.7): %v", v)
	}
	if v := Lag1([][]float64{white[:2500], white[2500:]}); math.Abs(v) > 0.05 {
		t.Errorf("lag 1 of white noise: %v", v)
	}
	for _, g := range [][][]float64{nil, {{1}}, {{1, 1, 1}}, {{}, {}}} {
		if v := Lag1(g); v != 0 {
			t.Errorf("lag 1 of %v: %v", g, v)
		}
	}
	if v := GeoMean([]float64{0.5, 2, 4}); !almostEqual(v, math.Cbrt(4)) {
		t.Errorf("geometric mean %v", v)
	}
}

func histogramOf(counts map[int64]int64) Histogram {
	var h Histogram
	for v, n := range counts {
		h = append(h, Bucket{v, n})
	}
	slices.SortFunc(h, func(a, b Bucket) int { return int(a.Value - b.Value) })
	return h
}

// The sum of histograms has each value once, in order, and no empty bucket.
func TestMerge(t *testing.T) {
	for _, c := range []struct {
		hs   []Histogram
		want Histogram
	}{
		{nil, Histogram{}},
		{[]Histogram{{{5, 2}, {7, 0}, {9, 1}}}, Histogram{{5, 2}, {9, 1}}},
		{[]Histogram{{{5, 2}}, {}, {{1, 1}, {5, 3}, {8, 4}}, {{8, 1}, {9, 1}}}, Histogram{{1, 1}, {5, 5}, {8, 5}, {9, 1}}},
	} {
		if got := Merge(c.hs); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.hs, got, c.want)
		}
	}
}

// A merged percentile is that of all values, unlike an average of the slices' percentiles.
func TestPercentilesMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	var all []int64
	var hs []Histogram
	for i := range 20 {
		counts := map[int64]int64{}
		for range 600 {
			v := int64(1000 + r.IntN(1000))
			if i == 7 {
				v *= 10 // one bad slice holds the whole tail
			}
			counts[v]++
			all = append(all, v)
		}
		hs = append(hs, histogramOf(counts))
	}
	slices.Sort(all)
	got := Percentiles(hs, []float64{0.5, 0.9, 0.99, 0.999}, Bootstrap{Resamples: 100, Seed: 1, Level: 0.95})
	if len(got) != 4 {
		t.Fatalf("%d percentiles of 12,000 samples, want 4", len(got))
	}
	for _, p := range got {
		if want := all[int(math.Ceil(p.Q*float64(len(all))))-1]; p.Value != float64(want) {
			t.Errorf("p%v: %v, want %v", p.Q*100, p.Value, want)
		}
		if p.Lo > p.Value || p.Hi < p.Value {
			t.Errorf("p%v: %v not in %v..%v", p.Q*100, p.Value, p.Lo, p.Hi)
		}
	}
	again := Percentiles(hs, []float64{0.5, 0.9, 0.99, 0.999}, Bootstrap{Resamples: 100, Seed: 1, Level: 0.95})
	if !slices.Equal(got, again) {
		t.Error("the same seed gives another interval")
	}
}

func TestPercentilesNeedSamples(t *testing.T) {
	one := func(n int64) []Histogram { return []Histogram{{{1000, n}}} }
	qs := []float64{0.5, 0.99, 0.999}
	for _, tc := range []struct {
		n    int64
		want int
	}{{0, 0}, {10, 0}, {20, 1}, {999, 1}, {1000, 2}, {9999, 2}, {10000, 3}} {
		if got := Percentiles(one(tc.n), qs, Bootstrap{Resamples: 10, Level: 0.95}); len(got) != tc.want {
			t.Errorf("%d samples: %d percentiles, want %d", tc.n, len(got), tc.want)
		}
	}
	if Percentiles(nil, qs, Bootstrap{}) != nil {
		t.Error("percentiles of nothing")
	}
}
