package view

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/result"
)

// An answer has the verdict, the ratio with its interval, and what was measured, in
// the words of the field.
func TestAnswers(t *testing.T) {
	lat := recordtest.UDPLat
	lat.Size, lat.Flows, lat.Name = 64, 4, "udp_lat/64/flows=4"
	for name, c := range map[string]struct {
		factor float64
		cells  []result.Cell
		want   []string
	}{
		"one load":      {1.37, []result.Cell{recordtest.TCPLat}, []string{"vxlan is 1.37x [1.3", "] the host network's TCP latency: slower"}},
		"streams":       {1.37, []result.Cell{recordtest.TCPBw}, []string{"vxlan is 0.73x [0.7", "] the host network's TCP throughput: slower"}},
		"as fast":       {1, []result.Cell{recordtest.TCPRR}, []string{"vxlan is 1.00x [", "] the host network's TCP request rate: same"}},
		"faster":        {0.8, []result.Cell{recordtest.UDPMsg}, []string{"vxlan is 1.25x [1.2", "the host network's UDP message rate: faster"}},
		"two loads":     {1.37, []result.Cell{recordtest.TCPLat, recordtest.TCPBw}, []string{"vxlan:  slower in both loads; worst ", "x ["}},
		"size and flow": {1.37, []result.Cell{recordtest.UDPLat, lat}, []string{"slower in both sizes; worst 1.3", "the host network's UDP latency at "}},
	} {
		truth := reporttest.Small(c.cells...)
		truth.Arms[3].Factor = c.factor
		s, err := analysis.Analyze(recordtest.Make(truth), analysis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, a := range answers(s, false) {
			if strings.HasPrefix(a.Path, "vxlan") {
				got += strings.ReplaceAll(a.Path+a.Text, NoBreak, " ")
			}
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", name, got, want)
			}
		}
	}
}
