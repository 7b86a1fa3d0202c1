package report

import (
	"bytes"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
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
