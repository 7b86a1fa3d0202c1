package search

import (
	"math/rand/v2"
	"testing"
)

// A set that makes something worse by just the margin is confirmed seldom, though it is
// looked at up to three times.
func TestConfirmationSpendsItsChance(t *testing.T) {
	const trials, sigma = 300, 0.07 // of a pair
	confirmed := 0
	for i := range trials {
		p := problem("a")
		p.Metrics[0].Role, p.Metrics[2].Role, p.Metrics[3].Role = Guard, Reported, Reported
		r := &run{Problem: p, Options: Options{Pairs: 1000}, rng: rand.New(rand.NewPCG(uint64(i), 1)), out: &Result{}, noise: make([]Noise, len(goals))}
		for m := range r.noise {
			r.noise[m].set(sigma)
		}
		r.bench = &world{rng: r.rng, cv: sigma / 1.414, truth: func(on func(int) bool, m int) float64 {
			switch {
			case on(0) && m == 0:
				return -r.margin(0)
			case on(0) && m == 1:
				return 1
			}
			return 0
		}}
		set, err := r.confirm(t.Context(), Subset{0}, map[int]*proof{0: {contest: r.contest(Subset{0}, Subset{0}), metric: 1}})
		if err != nil {
			t.Fatal(err)
		}
		confirmed += len(set)
	}
	if confirmed > trials*6/100 {
		t.Errorf("%d of %d were confirmed, want 5 %%", confirmed, trials)
	}
}

// Among many knobs that do nothing seldom one is harmful for losses that come and go; one
// that loses packets is.
func TestTroubleOfManyKnobs(t *testing.T) {
	const trials, knobs = 200, 30
	rng, accused := rand.New(rand.NewPCG(1, 2)), 0
	for range trials {
		r := &run{Problem: problem(make([]string, knobs)...), noise: make([]Noise, len(goals))}
		for k := range knobs {
			c := r.contest(nil, Subset{k})
			c.pairs = suspectPairs
			for range c.pairs {
				growth := troubleMargin + 0.01*rng.NormFloat64()
				if k == 0 {
					growth = 0.02 + 0.001*rng.NormFloat64()
				}
				c.growth[0] = append(c.growth[0], growth)
			}
			r.arms = append(r.arms, &arm{knobs: []int{k}, best: c})
		}
		harmful := r.harmful()
		if harmful[0] != "retransmits" {
			t.Fatalf("what loses packets is not found: %v", harmful)
		}
		if len(harmful) > 1 {
			accused++
		}
	}
	if accused > trials/20 {
		t.Errorf("%d of %d searches call something harmful that is not, want 5 %% at most", accused, trials)
	}
}
