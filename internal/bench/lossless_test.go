package bench

import (
	"bytes"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv/comparetest"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/verify"
)

// TestLosslessShort is the check of the daemon's comings and goings with so little
// traffic that a busy machine carries it: nothing may be lost.
func TestLosslessShort(t *testing.T) {
	h := comparetest.Host(t)
	if answer, err := feature.Programs.Ask(); answer != feature.Yes {
		t.Skipf("this kernel has no fast path: %v", err)
	}
	c := DefaultLossless()
	c.Services, c.Cycles, c.Unattended, c.Datagrams, c.Streams, c.Rate, c.Baseline = 10, 4, 1, 2000, 2, 1<<20, 0
	var out bytes.Buffer
	limits, err := c.check(t.Context(), &out, h)
	if err == nil {
		err = verify.CheckRequirements(&out, "something is lost", limits)
	}
	t.Logf("\n%s", out.String())
	if err != nil {
		t.Fatal(err)
	}
}

// What the machine's queues had no room for is excused, as far as they say so: loss
// beyond that, and broken connections, are not.
func TestExcused(t *testing.T) {
	for name, c := range map[string]struct {
		lost, backlog, receiver uint64
		broken                  []string
		want                    bool
	}{
		"all in a core's queue":            {lost: 3, backlog: 3, want: true},
		"all at a socket":                  {lost: 3, receiver: 3, want: true},
		"at both":                          {lost: 3, backlog: 1, receiver: 2, want: true},
		"fewer than segments and all":      {lost: 3, backlog: 500, want: true},
		"hundreds beside one in a queue":   {lost: 500, backlog: 1},
		"one more than there was room for": {lost: 4, backlog: 2, receiver: 1},
		"none thrown away":                 {lost: 1},
		"a connection broke":               {lost: 3, backlog: 3, broken: []string{"stream: reset"}},
	} {
		// What was there before counts for nothing.
		before := snapshot{tally: tally{lost: 7}, backlog: 900, receiver: 900}
		after := snapshot{tally: tally{lost: 7 + c.lost, broken: c.broken}, backlog: 900 + c.backlog, receiver: 900 + c.receiver}
		if got := lostByMachine(before, after); got != c.want {
			t.Errorf("%s: excused %v, want %v", name, got, c.want)
		}
	}
}
