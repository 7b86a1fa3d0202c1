package analysis_test

import (
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// untilDecided is a record that is looked at after every series: n of them.
func untilDecided(rec *result.Record, n int) *result.Record {
	out := *rec
	out.Plan.UntilDecided = true
	out.Slices = slices.DeleteFunc(slices.Clone(rec.Slices), func(s result.Slice) bool { return s.Series >= n })
	return &out
}

// A large difference is decided as soon as there are series enough, a path that is
// the same somewhat later, and nothing before.
func TestUndecided(t *testing.T) {
	tr := truth(recordtest.TCPLat, recordtest.TCPBw)
	tr.Series, tr.Rounds, tr.Meters = 24, 6, false
	rec := recordtest.Make(tr)
	decided := 0
	for n := stats.MinSeries; n <= tr.Series && decided == 0; n++ {
		s := analyze(t, untilDecided(rec, n), analysis.Options{Live: true})
		open := s.Undecided()
		if n < 7 && len(open) != 2 {
			t.Errorf("after %d series only %v is open", n, open)
		}
		if len(open) == 0 {
			decided = n
			for _, c := range tr.Cells {
				if v := row(t, s, c.Name, "vxlan").Judged.Verdict; v != stats.Slower {
					t.Errorf("%s: vxlan is %q", c.Name, v)
				}
				if v := row(t, s, c.Name, "routed").Judged.Verdict; v != stats.Equivalent {
					t.Errorf("%s: routed is %q", c.Name, v)
				}
			}
		}
	}
	if decided == 0 || decided > 14 {
		t.Errorf("decided after %d series", decided)
	}
}

// What more series cannot mend keeps no run going.
func TestUndecidedForGood(t *testing.T) {
	tr := truth(recordtest.TCPLat)
	tr.Series, tr.Meters = 12, false
	tr.Arms[2].Fails = "connection refused"
	if open := analyze(t, untilDecided(recordtest.Make(tr), 12), analysis.Options{Live: true}).Undecided(); len(open) > 0 {
		t.Errorf("a path that failed keeps %v open", open)
	}
}
