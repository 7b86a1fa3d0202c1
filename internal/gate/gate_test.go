package gate

import (
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

func TestFailIf(t *testing.T) {
	all := []Verdict{
		{path: "vxlan", load: "tcp_lat", cell: "tcp_lat/1", verdict: stats.Slower},
		{path: "vxlan", load: "tcp_bw", cell: "tcp_bw/65536", verdict: stats.CannotTell},
		{path: "routed", load: "tcp_lat", cell: "tcp_lat/1", verdict: stats.Equivalent},
		{path: "geneve", load: "tcp_lat", cell: "tcp_lat/1", missing: true},
	}
	for text, want := range map[string]int{
		"vxlan tcp_lat slower":         verr.Findings,
		"vxlan tcp_lat/1 slower":       verr.Findings,
		"vxlan * slower":               verr.Findings,
		"* * undecided":                verr.Findings,
		"vxlan tcp_lat faster":         verr.OK,
		"geneve tcp_lat slower":        verr.Findings, // it failed
		"geneve * undecided":           verr.Findings,
		"* tcp_lat faster":             verr.Findings,
		"* tcp_bw faster":              verr.OK,
		"routed * slower":              verr.OK,
		"vxlna tcp_lat slower":         verr.Usage,
		"routed tcp_bw slower":         verr.Usage, // it was not measured there
		"vxlan slower":                 verr.Usage,
		"vxlan tcp_lat slow":           verr.Usage,
		"vxlan tcp_lat slower by 10 %": verr.Usage,
	} {
		conditions, err := Parse([]string{text})
		if err == nil {
			err = Check(conditions, all)
		}
		if got := verr.Code(err); got != want {
			t.Errorf("%q: code %d, want %d (%v)", text, got, want, err)
		}
	}
}

// A load that was planned and never measured is one on which no condition can be checked.
func TestFailIfUnmeasured(t *testing.T) {
	rec := recordtest.Make(recordtest.Truth{Seed: 1, Series: 6, Rounds: 4, Noise: recordtest.Quiet,
		Arms:  []recordtest.Arm{recordtest.Host(), recordtest.Copy(), recordtest.Path("routed", 1)},
		Cells: []result.Cell{recordtest.TCPLat, recordtest.TCPBw}})
	rec.Slices = slices.DeleteFunc(rec.Slices, func(s result.Slice) bool { return s.Cell == recordtest.TCPBw.Name })
	sum, err := analysis.Analyze(rec, analysis.Options{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{
		"* * slower":           verr.Findings,
		"routed tcp_bw slower": verr.Findings,
		"* * undecided":        verr.Findings,
		"* tcp_lat slower":     verr.OK,
		"host * slower":        verr.Usage, // it is the baseline
		"host-copy * slower":   verr.Usage,
	} {
		conditions, err := Parse([]string{text})
		if err == nil {
			err = Check(conditions, SummaryVerdicts(sum))
		}
		if got := verr.Code(err); got != want {
			t.Errorf("%q: code %d, want %d (%v)", text, got, want, err)
		}
	}
}
