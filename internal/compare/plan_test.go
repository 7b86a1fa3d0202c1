package compare

import (
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/kube"
)

// A run that may stop when all is decided takes no longer than one that may not, and
// whatever says by itself when a run ends keeps its say.
func TestStopWhenDecided(t *testing.T) {
	for name, c := range map[string]struct {
		q       Request
		decided bool
	}{
		"defaults":        {Request{}, true},
		"a budget":        {Request{Budget: 3 * time.Minute}, true},
		"many sizes":      {Request{Loads: []string{"tcp_lat"}, Sizes: "8:256K:*2"}, true},
		"a small budget":  {Request{Loads: []string{"tcp_lat"}, Budget: 2 * time.Second}, false},
		"a fixed series":  {Request{Series: 4}, false},
		"fixed rounds":    {Request{Rounds: 12}, false},
		"a set precision": {Request{Precision: 0.02}, false},
	} {
		plain := resolve(t, c.q).Plan()
		c.q.StopWhenDecided = true
		p := resolve(t, c.q).Plan()
		if p.UntilDecided != c.decided {
			t.Errorf("%s: until decided is %v", name, p.UntilDecided)
		}
		most := max(experiment.Duration(plain, Slow()), plain.Budget)
		if got := max(p.Budget, 0); c.decided && (got == 0 || got > most) {
			t.Errorf("%s: it may take %s, and takes %s without", name, got, most)
		}
		if !c.decided && (p.Series != plain.Series || p.Rounds != plain.Rounds || p.Budget != plain.Budget) {
			t.Errorf("%s: the plan differs", name)
		}
	}
}

// A comparison in a cluster measures for little more than a minute unless told, because pods start before
// it and are removed behind it. What takes longer is measured with fewer rounds and series, but not so few that
// intervals grow fast; and what the user has said stays.
func TestClusterTime(t *testing.T) {
	if Slow() > 1 {
		t.Skip("an emulated CPU takes longer for everything")
	}
	const second = time.Second
	for name, c := range map[string]struct {
		q             Request
		level         kube.Level
		least, most   time.Duration // it takes
		series, round int           // at least
	}{
		"node agents":      {Request{}, kube.Node, 60 * second, clusterTime, 8, 8},
		"plain pods":       {Request{}, kube.Plain, 60 * second, clusterTime, 8, 9},
		"one load":         {Request{Loads: []string{"tcp_lat"}}, kube.Node, 10 * second, 30 * second, 8, 12},
		"many sizes":       {Request{Loads: []string{"tcp_lat"}, Sizes: "8:256K:*2"}, kube.Node, clusterTime, 3 * clusterTime, 6, 8},
		"a budget":         {Request{Budget: 3 * time.Minute}, kube.Node, 2 * clusterTime, 3 * clusterTime, 8, 8},
		"fixed series":     {Request{Series: 8}, kube.Node, 80 * second, 2 * clusterTime, 8, 12},
		"fixed rounds":     {Request{Rounds: 12}, kube.Node, 80 * second, 2 * clusterTime, 8, 12},
		"a narrow margin":  {Request{Margin: 0.01}, kube.Node, 60 * second, clusterTime, 8, 8},
		"a set precision":  {Request{Precision: 0.02}, kube.Node, 80 * second, 2 * clusterTime, 8, 12},
		"two of the paths": {Request{Paths: []string{"host", "pod"}}, kube.Node, 40 * second, clusterTime, 8, 8},
	} {
		q := c.q
		q.Cluster = &Cluster{Options: kube.Options{Image: "registry.example/venturi:1", Level: c.level}}
		p := resolve(t, q).Plan()
		took := experiment.Duration(p, 1)
		t.Logf("%s: %d series of %d rounds, %v", name, p.Series, p.Rounds, took)
		if took < c.least || took > c.most || p.Series < c.series || p.Rounds < c.round {
			t.Errorf("%s: %d series of %d rounds take %v", name, p.Series, p.Rounds, took)
		}
		// A run that is slower than foretold ends a little later; one that was told how much to measure does not.
		limit := clusterLimit
		switch {
		case q.hasFixedPlan() || q.Budget > 0:
			limit = q.Budget
		case took > clusterTime:
			limit = took * 5 / 4
		}
		if p.Budget.Round(second) != limit.Round(second) {
			t.Errorf("%s: it takes %v, and has a budget of %v, not %v", name, took, p.Budget, limit)
		}
		q.StopWhenDecided = true
		if q.hasFixedPlan() {
			continue
		}
		if d := resolve(t, q).Plan(); !d.UntilDecided || d.Budget == 0 || d.Budget > max(took, q.Budget) {
			t.Errorf("%s: until all is decided it takes up to %v, and %v without", name, d.Budget, took)
		}
	}
	if p := resolve(t, Request{}).Plan(); p.Series != experiment.DefaultSeries || p.Rounds != experiment.DefaultRounds {
		t.Errorf("in a lab: %d series of %d rounds", p.Series, p.Rounds)
	}
}

// What runs in a cluster ends by itself soon after a run of that budget must have ended.
func TestDeadline(t *testing.T) {
	q := Request{Budget: time.Minute, UntilDecided: true}
	r := resolve(t, q)
	if d := r.deadline(); d < 12*time.Minute || d > 14*time.Minute {
		t.Errorf("a run of a minute has a deadline of %v; its plan could take %v", d, experiment.Duration(r.Plan(), 1))
	}
}
