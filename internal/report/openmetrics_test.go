package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/result"
)

// The names and units are those that Prometheus' own linter asks for.
func TestOpenMetricsLint(t *testing.T) {
	truth := reporttest.Small(recordtest.TCPLat, recordtest.UDPMsg, recordtest.UDPBw, recordtest.TCPRR, recordtest.TCPCRR)
	truth.Histograms = true
	var out bytes.Buffer
	if err := Write(&out, recordtest.Make(truth), view.Options{Format: "prom"}); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(out.Bytes(), []byte("# EOF\n")) {
		t.Error("the end of the metrics is not marked")
	}
	problems, err := promlint.New(bytes.NewReader(bytes.ReplaceAll(out.Bytes(), []byte("# EOF\n"), nil))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// A path that has failed, in some loads or since some series, is named, and so is a load without data.
func TestOpenMetricsOfFailures(t *testing.T) {
	rec := *failedArm()
	rec.Plan.Cells = append(slices.Clone(rec.Plan.Cells), recordtest.UDPMsg)
	rec.Warnings = []result.Warning{{Code: "arm-failed", Arm: "routed", Cell: recordtest.TCPBw.Name}}
	var out bytes.Buffer
	if err := Write(&out, &rec, view.Options{Format: "prom"}); err != nil {
		t.Fatal(err)
	}
	for cell, failed := range map[string]map[string]string{
		`{cell="tcp_lat/1",flows="1",load="tcp_lat",path="%",size="1"}`:       {"host": "0", "routed": "0", "vxlan": "1"},
		`{cell="tcp_bw/65536",flows="1",load="tcp_bw",path="%",size="65536"}`: {"host": "0", "routed": "1", "vxlan": "1"},
		`{cell="udp_bw/1",flows="1",load="udp_bw",path="%",size="1"}`:         {"host": "1", "routed": "1", "vxlan": "1"},
	} {
		for path, value := range failed {
			if want := "venturi_path_failed" + strings.ReplaceAll(cell, "%", path) + " " + value + ".0\n"; !strings.Contains(out.String(), want) {
				t.Errorf("no %s", want)
			}
		}
	}
	share := `venturi_path_slices_without_figure_ratio{cell="udp_bw/1",flows="1",load="udp_bw",path="host",size="1"} 1.0`
	if !strings.Contains(out.String(), share) {
		t.Errorf("no %s", share)
	}
}
