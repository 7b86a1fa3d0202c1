package gate

import (
	"testing"

	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verr"
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
