// Package reporttest holds what the tests of reports share: records, and what their output is held to.
package reporttest

import (
	"bytes"
	"encoding/csv"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/testenv/plain"
	"github.com/venturi-net/venturi/result"
)

var update = flag.Bool("update", false, "write the golden files")

// Usual is a default run: four loads over three paths.
func Usual() recordtest.Truth {
	vxlan := recordtest.Path("vxlan", 1.37)
	return recordtest.Truth{
		Seed: 42, Series: 6, Rounds: 12, Noise: recordtest.Quiet, Histograms: true, Meters: true,
		Arms: []recordtest.Arm{recordtest.Host(), recordtest.Copy(), recordtest.Path("routed", 1.08), vxlan},
		Cells: []result.Cell{recordtest.TCPLat, recordtest.UDPLat, recordtest.TCPBw, recordtest.UDPMsg,
			recordtest.TCPMsg, recordtest.TCPRR},
	}
}

// UsualRecord is made once: its histograms take a second.
var UsualRecord = sync.OnceValue(func() *result.Record { return recordtest.Make(Usual()) })

// Small is one load, so that a golden file shows one thing.
func Small(cells ...result.Cell) recordtest.Truth {
	t := Usual()
	t.Cells, t.Rounds = cells, 8
	return t
}

// Emulate makes of a record that of a machine whose CPU software plays.
func Emulate(rec *result.Record) *result.Record {
	for i := range rec.Facts {
		f := &rec.Facts[i]
		f.CPUModel, f.Hypervisor, f.Emulated = "QEMU TCG CPU version 2.5+", "QEMU", true
	}
	return rec
}

// Golden holds output to what was printed before.
func Golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("report differs from %s (-want +got), run go test -update if it should:\n%s", file, diff)
	}
}

// Tainted is a record in which every text is hostile that its reader lets be.
func Tainted(t *testing.T) *result.Record {
	truth := Small(recordtest.UDPLat, recordtest.TCPBw)
	truth.Meters, truth.Histograms = true, false
	truth.Arms = append(truth.Arms, recordtest.Arm{Arm: result.Arm{Name: "qperf:host", Path: "qperf"}}, recordtest.Arm{Arm: result.Arm{Name: "gre", Path: "gre"}, Fails: plain.Hostile})
	rec := recordtest.Make(truth)
	rec.Warnings = append(rec.Warnings, result.Warning{Code: "arm-failed", Text: "text", Arm: "vxlan", Cell: "cell"}, result.Warning{Code: "other", Text: "text", Cell: "cell"})
	rec.End = &result.End{Reason: result.Failed, Error: "error", Series: rec.Plan.Series, Slices: len(rec.Slices)}
	plain.Taint(rec, "Format", "Role", "Transport", "Metric", "Code", "Reason", "Failed")
	for i := range rec.Meters {
		rec.Meters[i].Name = strings.TrimPrefix(rec.Meters[i].Name, plain.Hostile) // else nobody would read it
	}
	var text bytes.Buffer
	w := result.NewWriter(&text)
	for _, l := range recordtest.Lines(rec) {
		if err := w.Write(l); err != nil {
			t.Fatal(err)
		}
	}
	read, err := result.Read(&text)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// Marks of Markdown that make a link, an image or a tag.
var markdownMarks = regexp.MustCompile(`(^|[^\\])(!\[|\]\(|<b>)|://`)

// MarkdownMark finds what of a text Markdown shows as more than text; "": nothing.
func MarkdownMark(text string) string { return markdownMarks.FindString(text) }

// IsFormula tells whether a spreadsheet would compute a field.
func IsFormula(field string) bool {
	begin := strings.TrimLeft(field, " \t\r\n")
	if _, err := strconv.ParseFloat(field, 64); err == nil || begin == "" {
		return false
	}
	return strings.ContainsRune("=+-@＝＋－＠", []rune(begin)[0])
}

// Clean tells whether text holds names so that nobody obeys them.
func Clean(t *testing.T, format, text string) {
	t.Helper()
	if err := plain.Unclean(text); err != nil {
		t.Errorf("%s: %v", format, err)
	}
	if !strings.Contains(text, "HYPERLINK") {
		t.Errorf("%s: no name is printed, so this tests nothing", format)
	}
	if found := MarkdownMark(text); format == "md" && found != "" {
		t.Errorf("%s: %q makes more than text", format, found)
	}
	if format != "csv" {
		return
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		for _, field := range row {
			if IsFormula(field) {
				t.Errorf("a formula: %q", field)
			}
		}
	}
}
