package search

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// lines is a world whose pairs a test can spoil.
type lines struct {
	world
	spoil func(first, second Subset, a, b *Sample) error
}

func (l *lines) Pair(ctx context.Context, first, second Subset) (a, b Sample, err error) {
	a, b, err = l.world.Pair(ctx, first, second)
	if err == nil && l.spoil != nil {
		err = l.spoil(first, second, &a, &b)
	}
	return a, b, err
}

func quiet(truth func(on func(int) bool, metric int) float64) *lines {
	return &lines{world: world{rng: rand.New(rand.NewPCG(7, 7)), cv: 0.01, truth: truth}}
}

func noEffect(func(int) bool, int) float64 { return 0 }

// helps is a truth in which knob 1 makes throughput better by a fifth.
func helps(on func(int) bool, m int) float64 {
	if on(1) && m == 1 {
		return 0.2
	}
	return 0
}

func problem(knobs ...string) Problem {
	p := Problem{Metrics: slices.Clone(goals), Troubles: []string{"retransmits"}}
	for _, k := range knobs {
		p.Knobs = append(p.Knobs, Factor{Name: k})
	}
	return p
}

func row(t *testing.T, r *Result, knob string) Row {
	t.Helper()
	for _, row := range r.Rows {
		if row.Knob == knob {
			return row
		}
	}
	t.Fatalf("no row for %s: %+v", knob, r.Rows)
	return Row{}
}

func TestRowsTellEffectAndVerdict(t *testing.T) {
	b := quiet(func(on func(int) bool, m int) float64 {
		if on(2) && m == 0 {
			return -0.1
		}
		return helps(on, m)
	})
	got, err := Do(context.Background(), problem("placebo", "good", "bad"), b, Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Set, []string{"good"}) {
		t.Fatalf("set %q", got.Set)
	}
	good := row(t, got, "good")
	if e := good.Effects[1]; good.Verdict != VerdictProven || good.Metric != "throughput" || e.Open || e.Lo > math.Exp(0.2) || e.Hi < math.Exp(0.2) || e.Hi/e.Lo > 1.05 {
		t.Errorf("good: %+v", good)
	}
	if bad := row(t, got, "bad"); bad.Verdict != VerdictHarmful || bad.Metric != "latency" || bad.Effects[0].Value < 1.05 {
		t.Errorf("bad: %+v", bad)
	}
	if p := row(t, got, "placebo"); p.Verdict != VerdictNotShown {
		t.Errorf("placebo: %+v", p)
	}
	if len(got.Confirm) == 0 || got.Confirm[1].Lo <= 1 {
		t.Errorf("confirmation: %+v", got.Confirm)
	}
}

// The same seed asks for the same pairs in the same order.
func TestSeedDecidesOrder(t *testing.T) {
	asked := func(seed uint64) string {
		var s strings.Builder
		b := quiet(helps)
		b.spoil = func(first, second Subset, _, _ *Sample) error {
			for _, state := range []Subset{first, second} {
				s.WriteByte('|')
				for _, k := range state {
					s.WriteByte(byte('0' + k))
				}
			}
			return nil
		}
		if _, err := Do(context.Background(), problem("a", "b", "c"), b, Options{Seed: seed}); err != nil {
			t.Fatal(err)
		}
		return s.String()
	}
	once, again := asked(3), asked(3)
	if once != again {
		t.Error("one seed, two orders")
	}
	if once == asked(4) {
		t.Error("two seeds, one order")
	}
}

func TestGateRefusesNoise(t *testing.T) {
	quieter := func(cv float64) *lines {
		b := quiet(noEffect)
		b.cv = cv
		return b
	}
	got, err := Do(context.Background(), problem("a"), quieter(0.4), Options{Seed: 1})
	var noisy *NoisyError
	if !errors.As(err, &noisy) || len(noisy.Reasons) != 3 || !strings.Contains(err.Error(), "latency is so noisy") {
		t.Fatalf("error %v", err)
	}
	least := min(got.Noise[0].MDE, got.Noise[1].MDE, got.Noise[2].MDE)
	if _, err := Do(context.Background(), problem("a"), quieter(0.4), Options{Seed: 1, MDE: least * 1.01}); noisy.MDE != least || errors.As(err, new(*NoisyError)) {
		t.Errorf("said to need %.3f of %+v; with that: %v", noisy.MDE, got.Noise, err)
	}
	if got.Pairs != gatePairs || len(got.Noise) != len(goals) {
		t.Errorf("%d pairs, noise %+v", got.Pairs, got.Noise)
	}
}

// A bench on which the same state differs shows effects that are none.
func TestGateSeesBias(t *testing.T) {
	p := problem("a")
	r := &run{Problem: p, Options: Options{MDE: 0.1}, out: &Result{}}
	c := r.contest(nil, nil)
	for m := range p.Metrics {
		for i := range gatePairs {
			c.gains[m] = append(c.gains[m], 0.05+0.001*float64(i))
		}
	}
	c.pairs = gatePairs
	if why := r.judgeGate(c); len(why) != 3 || !strings.Contains(why[0], "differs by") || r.quietest() != 0 {
		t.Errorf("judged %q, effect %v", why, r.quietest())
	}
}

// One noisy goal is no reason to refuse: the others show what they show, and of it a
// large effect does.
func TestGateTakesOneNoisyGoal(t *testing.T) {
	b := quiet(helps)
	b.spoil = func(_, _ Subset, x, y *Sample) error {
		x.Values[0] *= math.Exp(b.rng.NormFloat64())
		y.Values[0] *= math.Exp(b.rng.NormFloat64())
		return nil
	}
	got, err := Do(context.Background(), problem("a", "b"), b, Options{Seed: 2})
	if err != nil || !slices.Equal(got.Set, []string{"b"}) {
		t.Fatalf("set %q, error %v", got.Set, err)
	}
	if got.Noise[0].Out == "" || got.Noise[1].Out != "" {
		t.Errorf("noise %+v", got.Noise)
	}
}

func TestNoisyGoalShowsLargeEffect(t *testing.T) {
	b := quiet(noEffect)
	b.spoil = func(first, second Subset, x, y *Sample) error {
		for _, of := range []struct {
			state Subset
			*Sample
		}{{first, x}, {second, y}} {
			of.Values[0] *= math.Exp(0.3 * b.rng.NormFloat64())
			if slices.Contains(of.state, 0) {
				of.Values[0] /= 4
			}
		}
		return nil
	}
	got, err := Do(context.Background(), problem("a", "b"), b, Options{Seed: 2})
	if err != nil || !slices.Equal(got.Set, []string{"a"}) || got.Noise[0].Out == "" {
		t.Errorf("set %q, noise %+v, error %v", got.Set, got.Noise, err)
	}
}

func TestBrokenStateIsHarmful(t *testing.T) {
	b := quiet(helps)
	b.spoil = func(first, second Subset, _, _ *Sample) error {
		for _, s := range []Subset{first, second} {
			if slices.Contains(s, 0) {
				return &BrokenError{s, errors.New("no reply")}
			}
		}
		return nil
	}
	got, err := Do(context.Background(), problem("cut", "good"), b, Options{Seed: 1})
	if err != nil || !slices.Equal(got.Set, []string{"good"}) {
		t.Fatalf("set %q, error %v", got.Set, err)
	}
	if r := row(t, got, "cut"); r.Verdict != VerdictHarmful || r.Reason != "no reply" {
		t.Errorf("cut: %+v", r)
	}
}

// What helps at the price of lost packets is not kept.
func TestTroubleIsHarm(t *testing.T) {
	b := quiet(helps)
	b.spoil = func(first, second Subset, x, y *Sample) error {
		for i, s := range []Subset{first, second} {
			if slices.Contains(s, 1) {
				[]*Sample{x, y}[i].Troubles[0] = 0.02 + 0.001*b.rng.Float64()
			}
		}
		return nil
	}
	got, err := Do(context.Background(), problem("a", "b"), b, Options{Seed: 1})
	if err != nil || len(got.Set) != 0 {
		t.Fatalf("set %q, error %v", got.Set, err)
	}
	if r := row(t, got, "b"); r.Verdict != VerdictHarmful || r.Metric != "retransmits" {
		t.Errorf("b: %+v", r)
	}
}

// What only some pairs give, and then wild, is nothing that a knob did.
func TestFewValuesAreNoHarm(t *testing.T) {
	b, pairs := quiet(helps), 0
	b.spoil = func(first, second Subset, x, y *Sample) error {
		x.Values[3], y.Values[3] = math.NaN(), math.NaN()
		if pairs++; pairs%6 == 0 {
			x.Values[3], y.Values[3] = 100, 100 // and so the gate takes it for quiet
			switch on := slices.Contains(first, 1); {
			case on && !slices.Contains(second, 1):
				x.Values[3] = 400
			case !on && slices.Contains(second, 1):
				y.Values[3] = 400
			}
		}
		return nil
	}
	got, err := Do(context.Background(), problem("a", "b"), b, Options{Seed: 1})
	if err != nil || !slices.Equal(got.Set, []string{"b"}) {
		t.Fatalf("set %q, error %v, why %q", got.Set, err, got.Reason)
	}
}

// What makes throughput better and latency worse by more than the margin is not kept.
func TestGuardsHold(t *testing.T) {
	b := quiet(func(on func(int) bool, m int) float64 {
		if on(1) && m == 0 {
			return -0.15
		}
		return helps(on, m)
	})
	p := problem("a", "b")
	p.Metrics[0].Role = Guard
	got, err := Do(context.Background(), p, b, Options{Seed: 1})
	if err != nil || len(got.Set) != 0 || row(t, got, "b").Verdict != VerdictHarmful {
		t.Fatalf("set %q, error %v", got.Set, err)
	}
}

// Values of one setting exclude each other: the better one stays.
func TestGroupKeepsTheBetterValue(t *testing.T) {
	b := quiet(func(on func(int) bool, m int) float64 {
		switch {
		case m != 1:
			return 0
		case on(0) && on(1):
			t.Error("two values of one setting at once")
		case on(0):
			return 0.1
		case on(1):
			return 0.3
		}
		return 0
	})
	p := problem("ring=1024", "ring=4096", "placebo")
	p.Knobs[0].Group, p.Knobs[1].Group = "ring", "ring"
	got, err := Do(context.Background(), p, b, Options{Seed: 1})
	if err != nil || !slices.Equal(got.Set, []string{"ring=4096"}) {
		t.Fatalf("set %q, error %v", got.Set, err)
	}
}

func TestVoidPairs(t *testing.T) {
	b := quiet(helps)
	b.void = 1
	_, err := Do(context.Background(), problem("a"), b, Options{Seed: 1})
	if err == nil || !strings.Contains(err.Error(), "throttled") {
		t.Errorf("error %v", err)
	}
}

func TestCancelEndsSearch(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	b := quiet(helps)
	n := 0
	b.spoil = func(_, _ Subset, _, _ *Sample) error {
		if n++; n == 30 {
			cancel()
		}
		return nil
	}
	got, err := Do(ctx, problem("a", "b"), b, Options{Seed: 1})
	if !errors.Is(err, context.Canceled) || got.Pairs != 30 || len(got.Set) != 0 {
		t.Errorf("error %v, %d pairs, set %q", err, got.Pairs, got.Set)
	}
}

// The test of signs is exact: of two equal states it is sure as often as it says.
func TestBetterIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{6, 10, 24} {
		sure, runs := 0, 4000
		for range runs {
			x := make([]float64, n)
			for i := range x {
				x[i] = rng.NormFloat64() * math.Exp(2*rng.NormFloat64()) // wild
			}
			if signedRankP(x) <= 0.05 {
				sure++
			}
		}
		if share := float64(sure) / float64(runs); share > 0.06 || share < 0.025 {
			t.Errorf("of %d pairs: sure in %.1f %%", n, 100*share)
		}
	}
	if p := signedRankP([]float64{1, 2, 3, 4, 5, 6}); p != 1.0/64 {
		t.Errorf("six for six: %v", p)
	}
	if lo, ok := lowerBound([]float64{1, 1, 1, 1, 1, 1, 1, 1}, 0.05); !ok || lo < 0.99 || lo > 1.01 {
		t.Errorf("bound of eight equal pairs: %v %v", lo, ok)
	}
	if _, ok := lowerBound([]float64{1, 2}, 0.05); ok {
		t.Error("a bound of two pairs")
	}
}

// What going backward measured of a whole set counts for whether the set leaves things
// as they were, and what it measured on top of another knob does not.
func TestConfirmationKnowsWhatWasMeasured(t *testing.T) {
	const fresh, before = 8, 16
	spreadOut := func(i, n int) float64 { return 0.3 * (float64(i)/float64(n-1) - 0.5) } // of no mean
	for name, c := range map[string]struct {
		from Subset
		why  string
	}{
		"the same states": {nil, ""},
		"others":          {Subset{1}, "together they were not shown to leave latency as good as it was"},
	} {
		t.Run(name, func(t *testing.T) {
			b, i := quiet(noEffect), 0
			b.spoil = func(first, second Subset, x, y *Sample) error {
				for m := range goals {
					x.Values[m], y.Values[m] = 100, 100
				}
				on, off := x, y
				if len(second) > 0 {
					on, off = y, x
				}
				on.Values[0] = 100 * math.Exp(spreadOut(i, fresh)) // latency
				off.Values[1] = 50                                 // what the set is for
				i++
				return nil
			}
			r := &run{Problem: problem("a", "b"), Options: Options{Pairs: fresh}, bench: b, rng: rand.New(rand.NewPCG(1, 1)), out: &Result{}, noise: make([]Noise, len(goals))}
			for m := range r.noise {
				r.noise[m].set(0.055) // so that 0.047 is no worse
			}
			p := &proof{contest: r.contest(c.from, Subset{0}), metric: 1, significant: true}
			for j := range before {
				p.gains[0] = append(p.gains[0], spreadOut(j, before))
			}
			set, err := r.confirm(t.Context(), Subset{0}, map[int]*proof{0: p})
			if err != nil || (len(set) > 0) != (c.why == "") || r.out.Reason != c.why {
				t.Errorf("set %v, error %v, why %q, want %q", set, err, r.out.Reason, c.why)
			}
			if got := r.out.Confirm[0].Pairs; got != fresh {
				t.Errorf("the confirmation tells of %d pairs, not of the %d fresh ones", got, fresh)
			}
		})
	}
}
