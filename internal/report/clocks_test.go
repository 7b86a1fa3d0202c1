package report

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/result"
)

// A client's clock that is a day ahead and drifts by 500 ppm shows in no figure.
func TestClocksChangeNoFigure(t *testing.T) {
	right := recordtest.Make(reporttest.Small(recordtest.TCPLat, recordtest.UDPMsg))
	skewed := *right
	skewed.Slices = slices.Clone(right.Slices)
	for i := range skewed.Slices {
		s := &skewed.Slices[i]
		s.Start += s.Start/2000 + int64(24*time.Hour)
	}
	for _, format := range []string{"table", "md", "csv", "json", "prom", "benchstat"} {
		written := func(rec *result.Record) string {
			var out bytes.Buffer
			if err := Write(&out, rec, view.Options{Format: format}); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			return out.String()
		}
		if right, skewed := written(right), written(&skewed); right != skewed || len(right) < 100 {
			t.Errorf("%s: by a clock that is wrong:\n%s\nand right:\n%s", format, skewed, right)
		}
	}
}
