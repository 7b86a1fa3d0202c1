package report

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
)

// Every format shows a load of connections as what it is.
func TestConnections(t *testing.T) {
	truth := reporttest.Small(recordtest.TCPCRR)
	truth.Histograms = true
	rec := recordtest.Make(truth)
	for _, c := range []struct {
		format view.Options
		wants  []string
	}{
		{view.Options{Format: "table", Width: 250}, []string{"tcp_crr 1 B   connections opened", "conn/s", "time p99", "CPU/connection", "lost"}},
		{view.Options{Format: "md"}, []string{"conn/s", "time p99", "CPU/connection"}},
		{view.Options{Style: "qperf"}, []string{"# tcp_crr: qperf has no such test", "conn/s"}},
		{view.Options{Format: "benchstat", Width: 250}, []string{"Unit conn/s better=higher", " conn/s\n"}},
		{view.Options{Format: "csv", Width: 250}, []string{",connections,1/s,", ",connection,"}},
		{view.Options{Format: "json", Width: 250}, []string{`"connections"`, `"per": "connection"`}},
	} {
		var out strings.Builder
		if err := Write(&out, rec, c.format); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%+v lacks %q:\n%s", c.format, want, &out)
			}
		}
	}
}
