package compare

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/report"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/testenv"
)

// 640 streams over five tunnels, on five threads of each end, as five iperf3 with 128 each: every
// row has a figure, and tells how evenly its flows shared it; so does the report. And 640 flows of
// datagrams.
func TestManyFlows(t *testing.T) {
	if !testenv.Long() {
		t.Skip("640 streams a path take half a minute to open on a busy machine; make test-long has them")
	}
	h := testHost(t, deaf{})
	q := short(t, "tcp_bw", "udp_bw")
	q.Paths, q.Flows, q.Threads = []string{"host", "vxlan:tunnels=5"}, []int{640}, 5
	q.NoCopy, q.Series, q.Rounds, q.Slice = true, 2, 3, time.Second
	rec, _, err := Do(t.Context(), resolve(t, q), h)
	if err != nil {
		t.Fatal(err)
	}
	sum := analyze(t, rec)
	if len(sum.Cells) != 2 {
		t.Fatalf("%d cells", len(sum.Cells))
	}
	for _, c := range sum.Cells {
		for _, r := range c.Rows {
			name := c.Cell.Name + ", " + r.Arm.Name
			if r.Value <= 0 || r.Spread == nil {
				t.Errorf("%s: figure %v, spread %+v", name, r.Value, r.Spread)
				continue
			}
			t.Logf("%s: %.3g, Jain's index %.3f, the flows carried %.2f to %.2f of their mean", name, r.Value, r.Spread.Jain, r.Spread.Lowest, r.Spread.Highest)
			// One flow alone would have 1/640, and the flows of one tunnel or thread 1/5.
			if r.Spread.Jain <= 0.21 || r.Spread.Jain > 1 {
				t.Errorf("%s: Jain's index is %v", name, r.Spread.Jain)
			}
		}
	}
	for _, s := range rec.Slices {
		if s.Stream == nil || len(s.Stream.PerFlow) != 640 {
			t.Fatalf("a slice without 640 flows: %+v", s)
		}
	}
	var out bytes.Buffer
	if err := report.Write(&out, rec, view.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"tcp_bw 64 KiB x 640 flows", "udp_bw 1 B x 640 flows", "Jain", "lowest flow", "highest"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, &out)
		}
	}
}
