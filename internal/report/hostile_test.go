package report

import (
	"bytes"
	"cmp"
	"testing"

	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
)

// Every renderer of the tables prints names so that no terminal obeys them, no
// spreadsheet computes them, and no browser follows them.
func TestRenderersAreClean(t *testing.T) {
	rec := reporttest.Tainted(t)
	var all []view.Options
	for _, f := range Formats() {
		all = append(all, view.Options{Format: f, FastPathStats: true}, view.Options{Format: f, Width: 60})
	}
	for _, s := range Styles() {
		all = append(all, view.Options{Style: s})
	}
	for _, opt := range all {
		var out bytes.Buffer
		if err := Write(&out, rec, opt); err != nil {
			t.Fatal(err)
		}
		reporttest.Clean(t, cmp.Or(opt.Format, opt.Style), out.String())
	}
}
