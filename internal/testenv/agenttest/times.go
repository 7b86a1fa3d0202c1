package agenttest

import (
	"testing"
	"time"

	"github.com/venturi-net/venturi/result"
)

// WantTimesOfRun wants every time in a record to be one that can have passed in its run: none is the
// difference of two machines' clocks, which are hours apart. longest bounds what a slice takes.
func WantTimesOfRun(t *testing.T, rec *result.Record, longest time.Duration) {
	t.Helper()
	within := func(what string, ns, most int64) {
		t.Helper()
		if ns < 0 || ns > most {
			t.Errorf("%s: %v", what, time.Duration(ns))
		}
	}
	most := longest.Nanoseconds()
	for _, s := range rec.Slices {
		what := func(of string) string { return of + " of a slice of " + s.Arm + " in " + s.Cell }
		within(what("the time"), s.Elapsed, most)
		if at := time.Duration(s.Start); at < -time.Minute || at > time.Hour {
			t.Errorf("%s is said to be %v after the run's", what("the begin"), at)
		}
		if l := s.Latency; l != nil {
			within(what("the median round trip"), l.RTTMedian, most)
			within(what("the mean round trip"), l.RTTSum/max(l.Replies, 1), most)
		}
		for _, stream := range []*result.Stream{s.Stream, s.Background} {
			if stream != nil {
				within(what("the sender's time"), stream.SendNs, most)
				within(what("the receiver's time"), stream.RateNs, most)
			}
		}
	}
	machines := map[string]bool{}
	most *= int64(max(1, rec.Plan.Rounds))
	for _, m := range rec.Meters {
		what := m.Name + " of " + m.Arm + " in " + m.Cell + " on " + m.Machine
		within(what, m.WallNs, most)
		if m.Name != "cpu" {
			continue
		}
		machines[m.Machine] = true
		for class, ns := range m.Values {
			within(what+", "+class, ns, most)
		}
	}
	if len(rec.Slices) == 0 || len(machines) < 2 {
		t.Errorf("there are %d slices, and CPU times of %d machines", len(rec.Slices), len(machines))
	}
}
