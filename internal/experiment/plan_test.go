package experiment

import (
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

func plan(arms, cells int, budget time.Duration) *result.Plan {
	p := &result.Plan{Arms: make([]result.Arm, arms), Budget: budget, Series: DefaultSeries, Rounds: DefaultRounds}
	for range cells {
		p.Cells = append(p.Cells, result.Cell{Flows: 1, Slice: 25 * time.Millisecond, Head: 2 * time.Millisecond})
	}
	return p
}

// TestFit wants every budget filled to most of it and never exceeded, and a
// hopeless one refused.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		arms, cells int
		budget      time.Duration
	}{{4, 4, 60 * time.Second}, {3, 1, 20 * time.Second}, {3, 1, 5 * time.Second}, {4, 16, 5 * time.Minute},
		{2, 1, time.Hour}, {4, 4, 15 * time.Second}} {
		p := plan(c.arms, c.cells, c.budget)
		if err := Fit(p, 1, false, false); err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		took := Duration(p, 1)
		t.Logf("%+v: %d series of %d rounds, %v", c, p.Series, p.Rounds, took)
		if took > c.budget {
			t.Errorf("%+v takes %v", c, took)
		}
		full := p.Series == mostSeries && p.Rounds == mostRounds
		if took < c.budget*7/10 && !full {
			t.Errorf("%+v takes only %v", c, took)
		}
	}
	if err := Fit(plan(4, 4, time.Second), 1, false, false); verr.Code(err) != verr.Usage {
		t.Errorf("a second for four loads: %v", err)
	}
}

// A run that goes on until all is decided has series enough to decide everything,
// and may have more of one load than there is time for of all.
func TestFitUntilDecided(t *testing.T) {
	p := plan(4, 4, DefaultBudget)
	p.UntilDecided = true
	if err := Fit(p, 1, false, false); err != nil {
		t.Fatal(err)
	}
	few := *p
	if few.Series = decidingSeries; Duration(&few, 1) > 25*time.Second || Duration(p, 1) < p.Budget || p.Rounds != decidingRounds {
		t.Errorf("%d series of %d rounds; to decide all takes %v", p.Series, p.Rounds, Duration(&few, 1))
	}
	p = plan(4, 4, 5*time.Second)
	p.UntilDecided = true
	if err := Fit(p, 1, false, false); verr.Code(err) != verr.Usage {
		t.Errorf("five seconds for four loads: %v", err)
	}
}

// TestFitEmulated wants what a slow machine can do within the budget: enough
// series for an interval before anything else.
func TestFitEmulated(t *testing.T) {
	for _, c := range []struct {
		arms, cells int
		budget      time.Duration
	}{{3, 4, 20 * time.Second}, {3, 1, 20 * time.Second}, {4, 4, time.Minute}, {7, 15, 5 * time.Minute}} {
		p := plan(c.arms, c.cells, c.budget)
		if err := Fit(p, EmulationSlowdown, false, false); err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		took := Duration(p, EmulationSlowdown)
		t.Logf("%+v: %d series of %d rounds, %v", c, p.Series, p.Rounds, took)
		if took > c.budget || took < c.budget*7/10 || p.Series < leastSeries {
			t.Errorf("%+v: %d series of %d rounds take %v", c, p.Series, p.Rounds, took)
		}
	}
}

// TestFitFixed wants what the user fixed left alone.
func TestFitFixed(t *testing.T) {
	p := plan(4, 4, 5*time.Minute)
	p.Series = 5
	if err := Fit(p, 1, true, false); err != nil || p.Series != 5 || p.Rounds == DefaultRounds {
		t.Errorf("%d series, %d rounds, %v", p.Series, p.Rounds, err)
	}
	p = plan(4, 4, 5*time.Minute)
	p.Rounds = 7
	if err := Fit(p, 1, false, true); err != nil || p.Rounds != 7 || p.Series == DefaultSeries {
		t.Errorf("%d series, %d rounds, %v", p.Series, p.Rounds, err)
	}
	p = plan(4, 4, time.Second)
	p.Series, p.Rounds = 2, 3
	if err := Fit(p, 1, true, true); err != nil || p.Series != 2 || p.Rounds != 3 {
		t.Errorf("both fixed: %d, %d, %v", p.Series, p.Rounds, err)
	}
}

// TestBlocks wants the same ports for arms that share no server's address, and
// ports of their own for those that share any.
func TestBlocks(t *testing.T) {
	a := &agents{t: t, served: map[uint64]bool{}}
	r, rec := newRun(a, 1)
	r.Ends = []Ends{ends("10.0.0.1"), ends("10.0.0.2", "10.0.0.3"), ends("10.0.0.3", "10.0.0.1")}
	if err := r.Do(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	p := a.plans[0]
	first := p.Arms[0].ServerPort
	for i, want := range []int{first, first, first + p.Flows} {
		if arm := p.Arms[i]; arm.ServerPort != want || arm.ClientPort-arm.ServerPort != clientPorts-serverPorts {
			t.Errorf("%s: ports %d to %d, want %d", arm.Name, arm.ClientPort, arm.ServerPort, want)
		}
	}
}

// TestConnectionPorts wants room between arms that share an address for all ports
// that a load of connections goes round.
func TestConnectionPorts(t *testing.T) {
	a := &agents{t: t, served: map[uint64]bool{}}
	r, rec := newRun(a, 1)
	r.Plan.Cells[0].Load, r.Plan.Cells[0].Flows = "tcp_crr", 4
	r.Ends = []Ends{ends("10.0.0.1"), ends("10.0.0.1"), ends("10.0.0.3")}
	if err := r.Do(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	l, err := load.Find("tcp_crr")
	if err != nil {
		t.Fatal(err)
	}
	arms := a.plans[0].Arms
	if got, want := arms[1].ClientPort-arms[0].ClientPort, l.ClientPorts(4); want < 100 || got != want {
		t.Errorf("%d ports between two arms, want %d", got, want)
	}
	if end := arms[1].ClientPort + l.ClientPorts(4); end > clientPorts+portSpan {
		t.Errorf("ports up to %d", end)
	}
}

// TestPorts wants blocks that do not overlap before the range is used up, and
// none beyond its end.
func TestPorts(t *testing.T) {
	p := portAllocator{next: portSpan - 100}
	used := map[int]bool{}
	for i := range 50 {
		at := p.take(30)
		if at < 0 || at+30 > portSpan {
			t.Fatalf("block at %d", at)
		}
		if used[at] {
			t.Fatalf("block %d, at %d, was given before", i, at)
		}
		used[at] = true
	}
	for range 3 * portSpan / 30 { // round and round
		at := p.take(30)
		if first, last := clientPorts+at, clientPorts+at+29; first <= 10259 && last >= 10248 || last >= serverPorts {
			t.Fatalf("clients have the ports %d to %d: kubelet and kube-proxy listen at some of them, or servers", first, last)
		}
	}
}
