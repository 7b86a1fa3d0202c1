package report

import (
	"bytes"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
)

// A client's clock that is a day ahead and drifts by 500 ppm shows in no figure.
func TestClocksChangeNoFigure(t *testing.T) {
	for _, format := range []string{"table", "md", "csv", "json", "prom", "benchstat"} {
		written := func(skew bool) string {
			rec := reporttest.UsualRecord()
			for i := range rec.Slices {
				if s := &rec.Slices[i]; skew {
					s.Start += s.Start/2000 + int64(24*time.Hour)
				}
			}
			var out bytes.Buffer
			if err := Write(&out, rec, view.Options{Format: format}); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			return out.String()
		}
		if right, skewed := written(false), written(true); right != skewed || len(right) < 100 {
			t.Errorf("%s: by a clock that is wrong:\n%s\nand right:\n%s", format, skewed, right)
		}
	}
}
