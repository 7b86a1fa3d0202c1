package compare

import (
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/experiment"
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

// What runs in a cluster ends by itself soon after a run of that budget must have ended.
func TestDeadline(t *testing.T) {
	q := Request{Budget: time.Minute, UntilDecided: true}
	r := resolve(t, q)
	if d := r.deadline(); d < 12*time.Minute || d > 14*time.Minute {
		t.Errorf("a run of a minute has a deadline of %v; its plan could take %v", d, experiment.Duration(r.Plan(), 1))
	}
}
