package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/result"
)

// Every format says of a record that it is of an emulated machine, and of a path
// that it leads through one.
func TestEveryFormatTells(t *testing.T) {
	opts := []view.Options{{Style: "qperf"}}
	for _, f := range Formats() {
		opts = append(opts, view.Options{Format: f})
	}
	for name, rec := range map[string]*result.Record{"machine": emulated(), "path": emulatedArm()} {
		for _, opt := range opts {
			var out bytes.Buffer
			if err := Write(&out, rec, opt); err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(strings.ToLower(out.String()), "benchmark")
			told := strings.Contains(first, "emulated")
			if opt.Format == "benchstat" {
				told = slices.Contains(strings.Split(out.String(), "\n"), "emulated: "+name)
			}
			if !told {
				t.Errorf("%s: format %q%s does not tell", name, opt.Format, opt.Style)
			}
		}
	}
}
