package load

import (
	"testing"
	"time"
)

// TestSumStreams lays the windows of flows together: two flows that take turns
// carry what one would, not twice as much.
func TestSumStreams(t *testing.T) {
	plan := &Plan{Size: 1000}
	flow := func(a account) *active {
		return &active{plan: plan, tcp: true, sent: sendCounts{messages: a.messages, ns: 100}, done: frame{values: a.values()}}
	}
	for name, c := range map[string]struct {
		flows        []*active
		messages, ns int64
	}{
		"one":      {[]*active{flow(account{60, 50, 1000, 2000})}, 50, 1000},
		"in turns": {[]*active{flow(account{60, 50, 1000, 1500}), flow(account{60, 50, 1500, 2000})}, 100, 1000},
		"together": {[]*active{flow(account{60, 50, 1000, 2000}), flow(account{60, 50, 1100, 1900})}, 100, 1000},
		"starved":  {[]*active{flow(account{60, 50, 1000, 2000}), flow(account{3, 0, 0, 0})}, 50, 1000},
	} {
		s, elapsed, err := sumStreams(c.flows)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.RateMessages != c.messages || s.RateNs != c.ns || s.RateBytes != 1000*c.messages || elapsed != 100*time.Nanosecond {
			t.Errorf("%s: %+v in %v", name, s, elapsed)
		}
	}
	if _, _, err := sumStreams([]*active{flow(account{3, 0, 0, 0})}); err == nil {
		t.Error("a rate without a window")
	}
}

func TestSinkCounts(t *testing.T) {
	c := newSinkCounts(1024, 10) // reads the clock at every message
	for _, at := range []int64{100, 105, 109, 111, 120, 140} {
		c.messages++
		c.read(at)
	}
	// The first ten ns are the head: the window opens at 111, with four messages in.
	if got, want := c.account(), (account{6, 2, 111, 140}); got != want {
		t.Errorf("account %+v, want %+v", got, want)
	}
	c.reset()
	if got := c.account(); got != (account{}) || c.head != 10 {
		t.Errorf("after reset: %+v", got)
	}
}
