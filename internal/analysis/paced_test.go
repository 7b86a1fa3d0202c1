package analysis_test

import (
	"math"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/stats"
)

// The figure of a stream with a rate is its CPU time, judged over series.
func TestPacedTruth(t *testing.T) {
	tr := truth(recordtest.UDPAt, recordtest.TCPAt)
	tr.Arms[2].CPUFactor, tr.Arms[3].CPUFactor = 1, 1.4
	s := analyze(t, recordtest.Make(tr), analysis.Options{})
	for _, c := range s.Cells {
		want := map[string]float64{recordtest.UDPAt.Name: 2500, recordtest.TCPAt.Name: 3e8}[c.Cell.Name]
		base := c.Rows[0]
		if math.Abs(base.Value/want-1) > 0.05 || base.Offered == nil || !base.Offered.Reached || base.NoFigure != 0 {
			t.Errorf("%s: %v, want %v; %+v", c.Cell.Name, base.Value, want, base.Offered)
		}
		if c.Floor == nil || c.Floor.Ratio.Series != 6 || c.Floor.Invalid {
			t.Errorf("%s: floor %+v", c.Cell.Name, c.Floor)
		}
		slow := row(t, s, c.Cell.Name, "vxlan")
		if slow.Ratio == nil || math.Abs(slow.Ratio.Value/1.4-1) > 0.02 || slow.Judged.Verdict != stats.Slower {
			t.Errorf("%s: %+v, %+v", c.Cell.Name, slow.Ratio, slow.Judged)
		}
		if same := row(t, s, c.Cell.Name, "routed"); same.Judged.Verdict != stats.Equivalent {
			t.Errorf("%s: an equal path is %q", c.Cell.Name, same.Judged.Verdict)
		}
	}
	if s.Series != 6 {
		t.Errorf("%d series", s.Series)
	}
}

// Without its rate an arm has no figure, and where the baseline has none, nobody is
// compared with it.
func TestRateNotHeld(t *testing.T) {
	tr := truth(recordtest.UDPAt)
	tr.Arms[3].Loss = 0.02
	s := analyze(t, recordtest.Make(tr), analysis.Options{})
	lossy := row(t, s, recordtest.UDPAt.Name, "vxlan")
	if lossy.Value != 0 || lossy.CPU != nil || lossy.Ratio != nil || lossy.Judged != nil || lossy.Offered.Reached || math.Abs(lossy.Offered.Received-0.98) > 0.005 {
		t.Errorf("%+v, %+v", lossy, lossy.Offered)
	}
	if other := row(t, s, recordtest.UDPAt.Name, "routed"); other.Value == 0 || other.Judged == nil {
		t.Errorf("%+v", other)
	}
	tr.Arms[3].Loss, tr.Arms[0].Loss = 0, 0.02
	s = analyze(t, recordtest.Make(tr), analysis.Options{})
	if other := row(t, s, recordtest.UDPAt.Name, "routed"); other.Value == 0 || other.Ratio != nil {
		t.Errorf("%+v", other)
	}
	if s.Cells[0].Floor != nil {
		t.Errorf("a floor without the baseline: %+v", s.Cells[0].Floor)
	}
}
