package layout

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/result"
)

// Tables in every format say that the machine is emulated, above all figures, and mark each
// figure and ratio of a path that leads through an emulated machine.
func TestEveryFormatTells(t *testing.T) {
	for _, format := range Formats() {
		text := func(rec *result.Record) string {
			var out bytes.Buffer
			if err := Write(&out, []Wired{{"", rec}}, oneTable(), view.Options{Format: format}); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		if real := text(oneCell()); strings.Contains(real, "EMULATED") || strings.Contains(real, " # ") {
			t.Errorf("%s of a machine with a CPU of its own:\n%s", format, real)
		}
		machine := text(reporttest.Emulate(oneCell()))
		above, _, found := strings.Cut(machine, "One stream")
		if !found || !strings.Contains(above, "EMULATED: software plays the CPU of this machine.") {
			t.Errorf("%s of an emulated machine does not begin with that:\n%s", format, machine)
		}
		path := text(emulatedOVS())
		if !strings.Contains(path, "EMULATED PATH: ovs ") {
			t.Errorf("%s with an emulated path does not name it:\n%s", format, path)
		}
		_, tables, _ := strings.Cut(path, "One stream")
		if format == "json" {
			if strings.Count(tables, `"emulated": "path"`) != 3 { // two figures, a ratio
				t.Errorf("the entries of an emulated path are not marked:\n%s", tables)
			}
			continue
		}
		for _, row := range []string{`ovs\W+16\.9 #\W+0 #`, `bgp/ovs\W+2\.01 #`, `ovs/host\W+0\.416 #`} {
			if !regexp.MustCompile(row).MatchString(tables) {
				t.Errorf("%s: %q is not marked:\n%s", format, row, tables)
			}
		}
		if !strings.Contains(tables, "Figures marked # are of paths through machines whose CPUs are emulated.") {
			t.Errorf("%s does not explain the mark:\n%s", format, tables)
		}
	}
}
