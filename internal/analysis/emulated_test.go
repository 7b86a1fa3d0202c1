package analysis_test

import (
	"reflect"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/stats"
)

// A path through a machine with an emulated CPU is compared with nothing, is in
// no count, and nobody else's verdict depends on it.
func TestEmulatedArm(t *testing.T) {
	tr := truth(recordtest.TCPLat, recordtest.TCPBw)
	tr.Arms[2].Factor = 1.2
	rec := recordtest.Make(tr)
	before := analyze(t, rec, analysis.Options{})
	rec.Plan.Arms[3].Emulated = true
	s := analyze(t, rec, analysis.Options{})
	if s.Emulated || s.Tests != 2 || before.Tests != 4 {
		t.Errorf("emulated %v, %d tests of %d", s.Emulated, s.Tests, before.Tests)
	}
	for _, c := range s.Cells {
		r := row(t, s, c.Cell.Name, "vxlan")
		if !r.Foreign() || r.Judged.Verdict != stats.NotJudged || r.Judged.Reason != stats.Emulated || r.Adjusted != 1 || r.Emulated != analysis.EmulatedPath {
			t.Errorf("%s: judged %+v, adjusted %v, emulated %q", c.Cell.Name, r.Judged, r.Adjusted, r.Emulated)
		}
		routed, was := row(t, s, c.Cell.Name, "routed"), row(t, before, c.Cell.Name, "routed")
		if !reflect.DeepEqual(routed.Judged, was.Judged) || routed.Emulated != "" || routed.Foreign() {
			t.Errorf("%s: another path is judged %+v, and was %+v", c.Cell.Name, routed.Judged, was.Judged)
		}
	}
	// Nor is a path compared with it.
	against := analyze(t, rec, analysis.Options{Baseline: "vxlan"})
	if r := row(t, against, "tcp_lat/1", "routed"); !r.Foreign() || against.Tests != 0 {
		t.Errorf("against an emulated path: %+v, %d tests", r.Judged, against.Tests)
	}
}

// The noise of an emulated path keeps no run from ending.
func TestEmulatedArmAndPrecision(t *testing.T) {
	tr := truth(recordtest.TCPLat)
	tr.Precision, tr.Looks = 0.05, []int{6}
	rec := recordtest.Make(tr)
	for i := range rec.Slices {
		if s := &rec.Slices[i]; s.Arm == "vxlan" && s.Series%2 == 0 {
			s.Latency.RTTMedian *= 3
		}
	}
	if s := analyze(t, rec, analysis.Options{}); s.Precise || s.Stop || s.Worst < 0.05 {
		t.Fatalf("a noisy path: precise %v, stop %v, worst %v", s.Precise, s.Stop, s.Worst)
	}
	rec.Plan.Arms[3].Emulated = true
	if s := analyze(t, rec, analysis.Options{}); !s.Precise || !s.Stop || s.Worst > 0.05 {
		t.Errorf("emulated: precise %v, stop %v, worst %v", s.Precise, s.Stop, s.Worst)
	}
}

// On a machine whose CPU is emulated the paths are compared with each other as
// anywhere.
func TestEmulatedMachine(t *testing.T) {
	rec := recordtest.Make(truth(recordtest.TCPLat))
	native := analyze(t, rec, analysis.Options{})
	for i := range rec.Facts {
		rec.Facts[i].Emulated = true
	}
	s := analyze(t, rec, analysis.Options{})
	r, was := row(t, s, "tcp_lat/1", "vxlan"), row(t, native, "tcp_lat/1", "vxlan")
	if !s.Emulated || r.Emulated != analysis.EmulatedMachine || r.Foreign() || !reflect.DeepEqual(r.Judged, was.Judged) || s.Tests != native.Tests {
		t.Errorf("emulated %v, row %q judged %+v, want %+v", s.Emulated, r.Emulated, r.Judged, was.Judged)
	}
}
