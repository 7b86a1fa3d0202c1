package report

import (
	"bytes"
	"encoding/csv"
	"regexp"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/result"
)

// tainted is a record in which every text is hostile that its reader lets be.
func tainted(t *testing.T) *result.Record {
	truth := small(recordtest.UDPLat, recordtest.TCPBw)
	truth.Meters, truth.Histograms = true, false
	truth.Arms = append(truth.Arms, recordtest.Arm{Arm: result.Arm{Name: "qperf:host", Path: "qperf"}}, recordtest.Arm{Arm: result.Arm{Name: "gre", Path: "gre"}, Fails: testenv.Hostile})
	rec := recordtest.Make(truth)
	rec.Warnings = append(rec.Warnings, result.Warning{Code: "arm-failed", Text: "text", Arm: "vxlan", Cell: "cell"}, result.Warning{Code: "other", Text: "text", Cell: "cell"})
	rec.End = &result.End{Reason: result.Failed, Error: "error", Series: rec.Plan.Series, Slices: len(rec.Slices)}
	testenv.Taint(rec, "Format", "Role", "Transport", "Metric", "Code", "Reason", "Failed")
	for i := range rec.Meters {
		rec.Meters[i].Name = strings.TrimPrefix(rec.Meters[i].Name, testenv.Hostile) // else nobody would read it
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

// Every renderer of the tables prints names so that no terminal obeys them, no
// spreadsheet computes them, and no browser follows them.
func TestRenderersAreClean(t *testing.T) {
	rec := tainted(t)
	var all []Options
	for _, f := range Formats() {
		all = append(all, Options{Format: f, AccelStats: true}, Options{Format: f, Width: 60})
	}
	for _, s := range Styles() {
		all = append(all, Options{Style: s})
	}
	for _, opt := range all {
		var out bytes.Buffer
		if err := Write(&out, rec, opt); err != nil {
			t.Fatal(err)
		}
		clean(t, opt, out.String())
	}
	layout := twoTables()
	testenv.Taint(&layout, "Load", "Unit", "Rows", "Columns", "Baseline", "Paths", "Sizes", "Flows")
	truth := overlays()
	testenv.Taint(truth, "Format", "Role", "Transport", "Metric", "Code", "Reason", "Failed", "Name", "Load", "Arm", "Cell", "Path")
	for _, f := range LayoutFormats() {
		var out bytes.Buffer
		if err := WriteLayout(&out, []Wired{{Wire: testenv.Hostile, Record: truth}}, layout, Options{Format: f}); err != nil {
			t.Fatal(err)
		}
		clean(t, Options{Format: f}, out.String())
	}
}

func clean(t *testing.T, opt Options, text string) {
	t.Helper()
	if err := testenv.Unclean(text); err != nil {
		t.Errorf("%+v: %v", opt, err)
	}
	if !strings.Contains(text, "HYPERLINK") {
		t.Errorf("%+v: no name is printed, so this tests nothing", opt)
	}
	if found := markdownMarks.FindString(text); opt.Format == "md" && found != "" {
		t.Errorf("%+v: %q makes more than text", opt, found)
	}
	if opt.Format != "csv" {
		return
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		for _, field := range row {
			if strings.HasPrefix(field, "=") {
				t.Errorf("a formula: %q", field)
			}
		}
	}
}
