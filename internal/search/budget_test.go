package search

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBudgetEndsSearch(t *testing.T) {
	b := quiet(helps)
	now := time.Unix(0, 0)
	b.spoil = func(_, _ Subset, _, _ *Sample) error { now = now.Add(time.Second); return nil }
	got, err := Do(context.Background(), problem("a", "b", "c", "d"), b, Options{
		Seed: 1, Budget: 100 * time.Second, Now: func() time.Time { return now }})
	if err != nil || !slices.Equal(got.Set, []string{"b"}) {
		t.Errorf("set %q, error %v, why %q", got.Set, err, got.Reason)
	}
	if took := now.Sub(time.Unix(0, 0)); took > 105*time.Second {
		t.Errorf("it took %s of 100s", took)
	}
}

func TestBudgetTooSmall(t *testing.T) {
	var short *ShortError
	four := problem("a", "b", "c", "d")
	got, err := Do(context.Background(), four, quiet(helps), Options{Seed: 1, Pairs: Least(4) - 1})
	if !errors.As(err, &short) || short.Available != short.Need-1 || short.Need != Least(4) || got.Pairs != 0 {
		t.Errorf("pairs: %+v, %d pairs", err, got.Pairs)
	}
	now := time.Unix(0, 0)
	o := Options{Seed: 1, Budget: time.Duration(Least(4))*time.Second - 1, Now: func() time.Time { return now }, PairTime: time.Second}
	got, err = Do(context.Background(), four, quiet(helps), o)
	if !errors.As(err, &short) || short.Least != time.Duration(Least(4))*time.Second || got.Pairs != 0 {
		t.Errorf("foretold: %+v, %d pairs", err, got.Pairs)
	}
	slow := quiet(helps)
	slow.spoil = func(_, _ Subset, _, _ *Sample) error { now = now.Add(2 * time.Second); return nil }
	o.Budget++
	got, err = Do(context.Background(), four, slow, o)
	if !errors.As(err, &short) || short.Least != time.Duration(2*Least(4))*time.Second || got.Pairs != gatePairs {
		t.Errorf("timed: %+v, %d pairs", err, got.Pairs)
	}
}

// What nothing was measured of was not tried, which is not the same as not shown.
func TestNotTried(t *testing.T) {
	b := quiet(helps)
	now, pairs := time.Unix(0, 0), 0
	b.spoil = func(_, _ Subset, _, _ *Sample) error {
		now = now.Add(time.Second)
		if pairs++; pairs > gatePairs {
			now = now.Add(time.Minute) // the machine has become slow
		}
		return nil
	}
	four := problem("a", "b", "c", "d")
	o := Options{Seed: 1, Budget: 90 * time.Second, Now: func() time.Time { return now }}
	got, err := Do(context.Background(), four, b, o)
	untried := 0
	for _, row := range got.Rows {
		if (row.Pairs == 0) != (row.Verdict == VerdictNotTried) || row.Verdict == VerdictNotTried && row.Reason != "time was up before its turn" {
			t.Errorf("%+v", row)
		}
		if row.Verdict == VerdictNotTried {
			untried++
		}
	}
	if err != nil || untried == 0 || untried == len(got.Rows) {
		t.Errorf("%d not tried, %v", untried, err)
	}
	b.spoil, b.cv = nil, 0.4
	got, err = Do(context.Background(), four, b, Options{Seed: 1})
	if err == nil || got.Rows[0].Verdict != VerdictNotTried || got.Rows[0].Reason != "the search ended before its turn" {
		t.Errorf("%v, %+v", err, got.Rows[0])
	}
}

// A search never takes longer than its budget, whatever it finds: settling is part of
// a pair, and so is waiting for a state that does not work. It still confirms.
func TestBudgetIsKept(t *testing.T) {
	confirmed, nearest := 0, time.Hour
	for seed := range uint64(80) {
		budget := time.Duration(150+3*seed) * time.Second
		tr := truths[seed%uint64(len(truths))]
		b := &lines{world: world{rng: rand.New(rand.NewPCG(seed, 3)), cv: 0.03,
			truth: func(on func(int) bool, m int) float64 { return tr.gain(0.045, on, m) }}}
		now := time.Unix(0, 0)
		b.spoil = func(first, second Subset, _, _ *Sample) error {
			now = now.Add(900*time.Millisecond + time.Duration(b.rng.IntN(300))*time.Millisecond)
			for _, s := range []Subset{first, second} {
				if slices.Contains(s, 4) {
					now = now.Add(time.Second) // a card makes its rings anew
				}
				if seed%4 == 0 && slices.Contains(s, 5) {
					now = now.Add(20 * time.Second)
					return &BrokenError{s, errors.New("no reply")}
				}
			}
			return nil
		}
		p := problem("0", "1", "2", "3", "rings", "cut", "6", "7", "8", "9", "10")
		got, err := Do(context.Background(), p, b, Options{Seed: seed, Budget: budget, Now: func() time.Time { return now }, PairTime: time.Second})
		took := now.Sub(time.Unix(0, 0))
		if err != nil || took > budget {
			t.Errorf("seed %d, %s: %s of %s, error %v", seed, tr.name, took, budget, err)
		}
		if nearest = min(nearest, budget-took); len(got.Set) > 0 {
			confirmed++
		}
	}
	if confirmed < 40 || nearest > 3*time.Second {
		t.Errorf("%d of 80 confirmed, the nearest ended %s before its budget: that shows nothing", confirmed, nearest)
	}
}
