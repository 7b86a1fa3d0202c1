package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// world is a machine with known truths: what each metric is in a state, in log
// units of gain, and how it is noisy.
type world struct {
	rng   *rand.Rand
	cv    float64 // of one measurement
	tails string  // "", "t3" or "spoiled"
	slow  float64 // drift that all metrics share
	phi   float64 // its autocorrelation from one measurement to the next
	truth func(on func(int) bool, metric int) float64
	drift float64
	void  float64 // share of measurements that tell not to use them
}

var goals = []Metric{
	{Name: "latency", LowerIsBetter: true, Role: Goal, Margin: 0.03},
	{Name: "throughput", Role: Goal, Margin: 0.03},
	{Name: "packets", Role: Goal, Margin: 0.03},
	{Name: "cpu", LowerIsBetter: true, Role: Watched, Margin: 0.1},
}

func (w *world) noise() float64 {
	switch {
	case w.tails == "t3":
		chi := 0.0
		for range 3 {
			z := w.rng.NormFloat64()
			chi += z * z
		}
		return w.cv * w.rng.NormFloat64() / math.Sqrt(chi/3)
	case w.tails == "spoiled" && w.rng.Float64() < 0.05:
		return w.cv*w.rng.NormFloat64() - 0.2 - 0.5*w.rng.Float64()
	}
	return w.cv * w.rng.NormFloat64()
}

func (w *world) sample(s Subset) Sample {
	on := func(k int) bool { return slices.Contains(s, k) }
	w.drift = w.phi*w.drift + w.slow*math.Sqrt(1-w.phi*w.phi)*w.rng.NormFloat64()
	out := Sample{Troubles: []float64{0}}
	for m, metric := range goals {
		gain := w.truth(on, m) + w.noise() - w.drift
		if metric.LowerIsBetter {
			gain = -gain
		}
		out.Values = append(out.Values, 100*math.Exp(gain))
	}
	if w.rng.Float64() < w.void {
		out.Void = "throttled"
	}
	return out
}

func (w *world) Pair(_ context.Context, first, second Subset) (a, b Sample, err error) {
	return w.sample(first), w.sample(second), nil
}

// spreadOf is the spread of a pair's log ratio, as the gate would find it if it
// had all the pairs that it wants.
func (w *world) spreadOf() float64 {
	var x []float64
	for range 400 {
		x = append(x, w.noise()-w.noise()+w.slow*math.Sqrt(2*(1-w.phi))*w.rng.NormFloat64())
	}
	return spread(x)
}

// kind is a kind of machine.
type kind struct {
	name  string
	cv    float64
	tails string
	slow  float64
	phi   float64
	void  float64
}

var kinds = []kind{
	{name: "cv 2 %", cv: 0.02},
	{name: "cv 5 %", cv: 0.05},
	{name: "cv 10 %", cv: 0.10},
	{name: "cv 4 %, heavy tails", cv: 0.04, tails: "t3"},
	{name: "cv 3 %, a twentieth spoiled", cv: 0.03, tails: "spoiled"},
	{name: "cv 2 %, slow drift", cv: 0.02, slow: 0.2, phi: 0.97},
	{name: "cv 3 %, some void", cv: 0.03, void: 0.1},
}

const (
	placebos = 10
	reals    = 3 // at most
)

// truth is which knobs do something. A need is met when one knob of it is kept.
type truth struct {
	name  string
	needs [][]int
	gain  func(size float64, on func(int) bool, metric int) float64
}

// sizeFor gives a size if it is the metric's.
func sizeFor(metric, want int, size float64) float64 {
	if metric == want {
		return size
	}
	return 0
}

var truths = []truth{
	{"one", [][]int{{0}}, func(size float64, on func(int) bool, m int) float64 {
		if on(0) {
			return sizeFor(m, 0, size)
		}
		return 0
	}},
	{"three of different metrics", [][]int{{0}, {1}, {2}}, func(size float64, on func(int) bool, m int) float64 {
		sum := 0.0
		for k := range 3 {
			if on(k) {
				sum += sizeFor(m, k, size)
			}
		}
		return sum
	}},
	{"two of one metric, one a factor of three", [][]int{{0}, {1}}, func(size float64, on func(int) bool, m int) float64 {
		sum := 0.0
		if on(0) {
			sum += sizeFor(m, 1, 1.1)
		}
		if on(1) {
			sum += sizeFor(m, 1, size)
		}
		return sum
	}},
	{"two that mend the same thing", [][]int{{0, 1}, {2}}, func(size float64, on func(int) bool, m int) float64 {
		sum := 0.0
		if on(0) || on(1) {
			sum += sizeFor(m, 1, size)
		}
		if on(2) {
			sum += sizeFor(m, 0, size)
		}
		return sum
	}},
	{"one hides another", [][]int{{0}, {1}}, func(size float64, on func(int) bool, m int) float64 {
		switch {
		case on(0) && on(1):
			return sizeFor(m, 1, 2.5*size)
		case on(0):
			return sizeFor(m, 1, 1.25*size)
		}
		return 0
	}},
	{"two only together, and one that harms", [][]int{{0}, {1}}, func(size float64, on func(int) bool, m int) float64 {
		sum := 0.0
		if on(0) && on(1) {
			sum += sizeFor(m, 2, size)
		}
		if on(2) {
			sum -= 0.5
		}
		return sum
	}},
}

// tally counts decisions.
type tally struct {
	needs, detected, placebos, placebosKept, refused, pairs, searches int
}

func (t *tally) add(o tally) {
	t.needs += o.needs
	t.detected += o.detected
	t.placebos += o.placebos
	t.placebosKept += o.placebosKept
	t.refused += o.refused
	t.pairs += o.pairs
	t.searches += o.searches
}

func (t tally) String() string {
	return fmt.Sprintf("%d of %d effects kept, %d of %d placebos kept, %d of %d searches refused, %d pairs each",
		t.detected, t.needs, t.placebosKept, t.placebos, t.refused, t.searches, t.pairs/max(1, t.searches))
}

// trial is one simulated search.
func trial(t *testing.T, k kind, truth truth, seed uint64, size float64) tally {
	rng := rand.New(rand.NewPCG(seed, 99))
	w := &world{rng: rng, cv: k.cv, tails: k.tails, slow: k.slow, phi: k.phi, void: k.void}
	mde := max(0.02, math.Expm1(powerSum*w.spreadOf()/math.Sqrt(fullPairs)))
	size *= math.Log1p(mde)
	// Which numbers the knobs have must not matter.
	at := rng.Perm(reals + placebos)
	w.truth = func(on func(int) bool, metric int) float64 {
		return truth.gain(size, func(i int) bool { return on(at[i]) }, metric)
	}
	p := Problem{Metrics: slices.Clone(goals), Troubles: []string{"retransmits"}, Couples: [][]int{{at[0], at[1]}}}
	for range at {
		p.Knobs = append(p.Knobs, Factor{})
	}
	for i, j := range at {
		p.Knobs[j].Name = fmt.Sprint(i)
	}
	out := tally{searches: 1, needs: len(truth.needs)}
	res, err := Do(context.Background(), p, w, Options{Seed: seed, MDE: 0.25})
	out.pairs = res.Pairs
	var noisy *NoisyError
	if errors.As(err, &noisy) {
		out.refused++
		out.needs = 0
		return out
	}
	if err != nil {
		t.Fatal(err)
	}
	used := map[int]bool{}
	for _, need := range truth.needs {
		kept := 0
		for _, i := range need {
			used[i] = true
			if slices.Contains(res.Set, fmt.Sprint(i)) {
				kept++
			}
		}
		if kept == 1 {
			out.detected++
		}
	}
	for i := range at {
		if used[i] {
			continue
		}
		out.placebos++
		if slices.Contains(res.Set, fmt.Sprint(i)) {
			out.placebosKept++
		}
	}
	return out
}

// searches of each truth on each kind of machine.
const searches = 8

// Effects of twice what the gate says can be shown must be kept, and what does
// nothing must not: the two limits of the real thing, with known truths.
func TestSearchKeepsEffectsAndNoPlacebos(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates for seconds") // without testenv, and all that it is linked with
	}
	all := tally{}
	for _, k := range kinds {
		for _, tr := range truths {
			sum := tally{}
			for i := range searches {
				one := trial(t, k, tr, uint64(1+i), 2)
				sum.add(one)
			}
			t.Logf("%-30s %-42s %v", k.name, tr.name, sum)
			all.add(sum)
		}
	}
	t.Logf("all: %v", all)
	if float64(all.detected) < 0.95*float64(all.needs) {
		t.Errorf("%d of %d effects kept, want 95 %%", all.detected, all.needs)
	}
	if float64(all.placebosKept) > 0.02*float64(all.placebos) {
		t.Errorf("%d of %d placebos kept, want 2 %% at most", all.placebosKept, all.placebos)
	}
	if float64(all.refused) > 0.02*float64(all.searches) {
		t.Errorf("%d of %d searches refused", all.refused, all.searches)
	}
}
