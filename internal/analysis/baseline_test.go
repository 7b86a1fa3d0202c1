package analysis_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// Two paths are compared with each other, as the host network is with both:
// over the same rounds, with the same noise floor, in a family of their own.
func TestAgainstAnotherArm(t *testing.T) {
	tr := truth(recordtest.TCPLat, recordtest.TCPBw)
	tr.Arms[2].Factor = 1.25
	rec := recordtest.Make(tr)
	host := analyze(t, rec, analysis.Options{Live: true})
	s := analyze(t, rec, analysis.Options{Live: true, Baseline: "vxlan"})
	if s.Tests != 2 || len(s.Cells) != 2 {
		t.Fatalf("%d tests over %d cells", s.Tests, len(s.Cells))
	}
	for i, c := range s.Cells {
		if len(c.Rows) != 2 || c.Baseline != "vxlan" || c.Rows[0].Arm.Name != "vxlan" || c.Rows[0].Ratio != nil || c.Rows[0].Judged != nil {
			t.Fatalf("%s: rows %+v", c.Cell.Name, c.Rows)
		}
		want := 1.25 / 1.4
		if !c.Cell.Metric.LowerIsBetter() {
			want = 1 / want
		}
		r := c.Rows[1]
		if r.Arm.Name != "routed" || math.Abs(r.Ratio.Value/want-1) > 0.01 || r.Ratio.Rounds != 72 || r.Judged.Verdict != stats.Faster {
			t.Errorf("%s: ratio %+v, verdict %+v, want %v", c.Cell.Name, r.Ratio, r.Judged, want)
		}
		if r.CPU.Ratio == nil || math.Abs(r.CPU.Ratio.Value/(1.25/1.4)-1) > 0.02 || c.Rows[0].CPU.Ratio != nil {
			t.Errorf("%s: CPU %+v, of the baseline %+v", c.Cell.Name, r.CPU.Ratio, c.Rows[0].CPU.Ratio)
		}
		same := host.Cells[i]
		if !reflect.DeepEqual(c.Floor, same.Floor) || !reflect.DeepEqual(c.Copy, same.Copy) || r.Value != row(t, host, c.Cell.Name, "routed").Value {
			t.Errorf("%s: floor, copy or figure differ from those against the host network", c.Cell.Name)
		}
	}
	if _, err := analysis.Analyze(rec, analysis.Options{Baseline: "geneve"}); err == nil || !strings.Contains(err.Error(), `"geneve"`) {
		t.Errorf("an arm that is not there: %v", err)
	}
	for _, name := range []string{"host-copy", "qperf:host"} {
		rec := recordtest.Make(truth(recordtest.TCPLat))
		rec.Plan.Arms = append(rec.Plan.Arms, result.Arm{Name: "qperf:host", Path: "qperf"})
		if _, err := analysis.Analyze(rec, analysis.Options{Baseline: name}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("against %s: %v", name, err)
		}
	}
	named := analyze(t, rec, analysis.Options{Live: true, Baseline: "host"})
	if !reflect.DeepEqual(named, host) {
		t.Error("the plan's baseline, named, gives another answer than unnamed")
	}
}

// Retransmits are counted over the time that the sender sent.
func TestRetransmitRate(t *testing.T) {
	rec := recordtest.Make(truth(recordtest.TCPBw, recordtest.UDPMsg))
	n := 0
	for i := range rec.Slices {
		if s := &rec.Slices[i]; s.Arm == "vxlan" && s.Stream != nil {
			s.Stream.Retransmits = 3
			n++
		}
	}
	s := analyze(t, rec, analysis.Options{Live: true})
	perSlice := (recordtest.TCPBw.Slice + recordtest.TCPBw.Head).Seconds()
	got := row(t, s, "tcp_bw/65536", "vxlan").Stream
	if math.Abs(got.RetransmitRate-3/perSlice) > 0.01 || got.Retransmits != int64(3*n/2) {
		t.Errorf("%v a second of %d, want %v of %d", got.RetransmitRate, got.Retransmits, 3/perSlice, 3*n/2)
	}
	if host := row(t, s, "tcp_bw/65536", "host").Stream; host.RetransmitRate != 0 {
		t.Errorf("host: %v a second", host.RetransmitRate)
	}
}
