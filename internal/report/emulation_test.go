package report

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/result"
)

// No report puts what was measured on an emulated CPU beside what was not.
func TestMixedRecords(t *testing.T) {
	l := oneTable()
	l.Tables[0].Rows = []Axis{ByWire, ByPath}
	l.Tables[0].Wires = []string{"sw", "hw"}
	both := []Wired{{"sw", oneCell()}, {"hw", emulate(oneCell())}}
	var out bytes.Buffer
	if err := WriteLayout(&out, both, l, Options{}); !errors.Is(err, ErrMixed) || out.Len() > 0 {
		t.Errorf("tables over an emulated record and one that is not: %v", err)
	}
	both[0].Record = emulate(oneCell())
	if err := WriteLayout(&out, both, l, Options{}); err != nil || !strings.Contains(out.String(), "! EMULATED:") {
		t.Errorf("tables over two emulated records: %v\n%s", err, &out)
	}
}

// Every format says of a record that it is of an emulated machine, and of a path
// that it leads through one.
func TestEveryFormatTells(t *testing.T) {
	opts := []Options{{Style: "qperf"}}
	for _, f := range Formats() {
		opts = append(opts, Options{Format: f})
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
