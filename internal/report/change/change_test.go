package change

import (
	"bytes"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/testenv/plain"
	"github.com/venturi-net/venturi/result"
)

// kernels are records of a path before and after a kernel that made it slower.
func kernels() []NamedRecord {
	before := reporttest.Small(recordtest.TCPLat, recordtest.TCPBw)
	before.Histograms, before.Meters, before.Series = false, false, 8
	after := before
	after.Seed, after.Arms = 43, append([]recordtest.Arm(nil), before.Arms...)
	after.Arms[3].Factor *= 1.08
	a, b := recordtest.Make(before), recordtest.Make(after)
	for i := range b.Facts {
		b.Facts[i].Kernel, b.Facts[i].CPUs = "6.12.9-amd64", 4
	}
	b.Plan.Arms = append([]result.Arm(nil), b.Plan.Arms...)
	return []NamedRecord{{"before", a}, {"after", b}}
}

func TestChanges(t *testing.T) {
	for _, format := range Formats() {
		var out bytes.Buffer
		changes, err := Write(&out, kernels(), view.Options{Format: format})
		if err != nil || len(changes) != 1 {
			t.Fatalf("%d changes, %v", len(changes), err)
		}
		reporttest.Golden(t, "change."+format, out.Bytes())
	}
}

func TestChangeBars(t *testing.T) {
	var out bytes.Buffer
	if _, err := Write(&out, kernels(), view.Options{Bars: true, Width: 140}); err != nil {
		t.Fatal(err)
	}
	reporttest.Golden(t, "change-bars-140.table", out.Bytes())
}

func TestChangesAreClean(t *testing.T) {
	rec := reporttest.Tainted(t)
	for _, format := range Formats() {
		var out bytes.Buffer
		if _, err := Write(&out, []NamedRecord{{plain.Hostile, rec}, {plain.Hostile, rec}, {"c", rec}}, view.Options{Format: format}); err != nil {
			t.Fatal(err)
		}
		reporttest.Clean(t, format, out.String())
	}
}
