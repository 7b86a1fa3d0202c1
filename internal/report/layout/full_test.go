package layout

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/result"
)

// The table says in each row which thread or core was full: those that carry packets, and an
// end of the load only where nothing else is.
func TestFull(t *testing.T) {
	truth := reporttest.Usual()
	truth.Meters, truth.Cells = true, []result.Cell{recordtest.TCPBw}
	rec := recordtest.Make(truth)
	rec.Meters = slices.DeleteFunc(rec.Meters, func(m result.Meter) bool { return m.Name == "threads" || m.Name == "cpu" })
	for series := range rec.Plan.Series {
		for arm, values := range map[string]map[string]int64{
			"host":  {"venturi/tcp_bw client#1": 960, "ksoftirqd/1#2": 100},
			"vxlan": {"venturi/tcp_bw client#1": 960, "ksoftirqd/1#2": 970},
		} {
			rec.Meters = append(rec.Meters, result.Meter{Cell: recordtest.TCPBw.Name, Series: series, Arm: arm, Machine: "m1", Name: "threads", WallNs: 1000, Values: values})
		}
	}
	l := Layout{Tables: []Table{{Title: "t", Rows: []Axis{ByPath}, Columns: []Axis{ByLoad}, Paths: []string{"host", "vxlan"}, Figures: []Figure{
		{Name: "full", Load: "tcp_bw", Sizes: []int{recordtest.TCPBw.Size}, Flows: []int{recordtest.TCPBw.Flows}, Full: true},
	}}}}
	var out bytes.Buffer
	if err := Write(&out, []Wired{{Record: rec}}, l, view.Options{Format: "md"}); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(out.String(), view.NoBreak, " ")
	for _, want := range []string{`| host | venturi/tcp\_bw client |`, "| vxlan | ksoftirqd/1 |", "Full are the threads that used 90 % of a core or more"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	out.Reset()
	if err := Write(&out, []Wired{{Record: rec}}, l, view.Options{Format: "json"}); err != nil || !strings.Contains(out.String(), `"ksoftirqd/1"`) {
		t.Errorf("%v in\n%s", err, out.String())
	}
}
