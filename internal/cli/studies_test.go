package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/study"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// shortForm is how a study is cut to a size that is over in minutes.
type shortForm struct {
	cut     *strings.Replacer // of the text of its file
	args    []string          // what its options need
	columns []string          // that must have a figure, besides a reason wherever there is none
}

var shortForms = map[string]shortForm{
	"calico-bgp-vs-ovs": {
		cut:     strings.NewReplacer("8:256K:*2", "8,4K,256K", "budget: 5m", "budget: 50s"),
		columns: []string{"bandwidth, Gb/s", "iperf3, Gb/s", "iperf3 retransmits/10 s"},
	},
	"cilium-tuning":   {cut: strings.NewReplacer("budget: 4m", "budget: 15s")},
	"kube-ovn-tuning": {cut: strings.NewReplacer("budget: 5m", "budget: 50s", `"1,1K,4K"`, `"1,1K"`, `"1K,4K"`, "1K")},
	"ovs-vxlan-latency": {
		cut:     strings.NewReplacer("budget: 12m", "budget: 90s"),
		columns: []string{"ping idle, us", "full beside packets", "full beside bytes"},
	},
	// Nothing but a kernel with modules has its paths. Its rates are those that an emulated machine holds beside others.
	"qinq": {
		cut: strings.NewReplacer("emulated-budget: 24m", "", "budget: 10m", "budget: 160s", "640", "6",
			", threads: 5, emulated: no", ", threads: 5", "20G, emulated: no", "60M", "20G", "60M"),
		args:    []string{"--kernel", "6.12"},
		columns: []string{"1 stream, Gb/s", "CPU at 20 Gb/s, s/GB", "CPU at 50 Mb/s, s/GB"},
	},
}

// TestStudies runs every study that comes with Venturi to its tables, in a short form. Each
// place of a table has a figure, or the reason why there is none.
func TestStudies(t *testing.T) {
	testenv.NeedsLong(t)
	testenv.Root(t)
	venturi := ownCopy(t)
	for _, name := range study.Names() {
		t.Run(name, func(t *testing.T) {
			form, ok := shortForms[name]
			if !ok {
				t.Fatal("the study has no short form here: add a line")
			}
			text, err := os.ReadFile(filepath.Join("..", "..", "studies", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			file, run := filepath.Join(dir, name+".yaml"), filepath.Join(dir, "run")
			if err := os.WriteFile(file, []byte(form.cut.Replace(string(text))), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := study.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			out, errs := &bytes.Buffer{}, &bytes.Buffer{}
			cmd := exec.CommandContext(t.Context(), venturi, append([]string{"study", "run", file, "--wait", "--out", run}, form.args...)...)
			cmd.Stdout, cmd.Stderr = out, errs
			err = cmd.Run()
			if cmd.ProcessState == nil || err != nil && cmd.ProcessState.ExitCode() != verr.Partial {
				t.Fatalf("%v\n%s", err, errs)
			}
			var recs []*result.Record
			for _, folder := range s.Folders(run) {
				rec, err := result.Open(folder)
				if err != nil {
					t.Fatalf("%v\n%s", err, errs)
				}
				recs = append(recs, rec)
			}
			lost := lostArms(recs)
			if err != nil && (len(lost) == 0 || !strings.Contains(errs.String(), "  why: ")) {
				t.Errorf("%v, and nothing says why: the arms %v were lost\n%s", err, lost, errs)
			}
			emulated := strings.Contains(errs.String(), "the virtual machine is emulated")
			if emulated && !strings.Contains(out.String(), "! EMULATED: ") {
				t.Errorf("tables of an emulated machine without its banner:\n%s", out)
			}
			report, err := exec.CommandContext(t.Context(), venturi, "report", "--study", file, "--format", "json", run).Output()
			if err != nil {
				t.Fatalf("tables of %s: %v", run, err)
			}
			tables := studyTables(t, report)
			if len(tables) == 0 {
				t.Fatalf("no tables in:\n%s", report)
			}
			shown := map[string]bool{} // columns with a figure
			for _, table := range tables {
				table.check(t, lost, shown)
			}
			for _, column := range form.columns {
				if !shown[column] {
					t.Errorf("column %q has no figure", column)
				}
			}
			if t.Failed() {
				t.Logf("the tables:\n%s\n%s", out, errs)
			}
		})
	}
}

// lostArms are those that a record warns of, with the reason.
func lostArms(recs []*result.Record) map[string]string {
	lost := map[string]string{}
	for _, rec := range recs {
		for _, w := range rec.Warnings {
			if w.Code == "arm-failed" && w.Text != "" {
				lost[w.Arm] = w.Text
			}
		}
	}
	return lost
}

// studyTable is a table in the JSON of a study's tables.
type studyTable struct {
	Title         string
	Rows, Columns [][]string
	Cells         [][]struct {
		Path, Missing string
		Baseline      string `json:"against"`
		Value         *float64
		Full          *struct{ Names []string }
		Runs          *struct {
			Values []float64 `json:"each"`
		}
	}
}

// studyTables reads all tables: of each wire, and of all wires.
func studyTables(t *testing.T, report []byte) (tables []studyTable) {
	t.Helper()
	for d := json.NewDecoder(bytes.NewReader(report)); ; {
		var part struct {
			Emulated bool
			Banners  []string
			Tables   []studyTable
		}
		switch err := d.Decode(&part); {
		case errors.Is(err, io.EOF):
			return tables
		case err != nil:
			t.Fatalf("%v in:\n%s", err, report)
		}
		if part.Emulated != slices.ContainsFunc(part.Banners, func(b string) bool { return strings.HasPrefix(b, "EMULATED: ") }) {
			t.Errorf("emulated: %v, and the banners are %q", part.Emulated, part.Banners)
		}
		tables = append(tables, part.Tables...)
	}
}

// check holds a table to have a figure or a reason in each place of a path. It adds the columns
// in which some path has a figure, or a rate that a slow machine cannot hold. What was not measured is
// missing only of a path that was lost.
func (table studyTable) check(t *testing.T, lost map[string]string, shown map[string]bool) {
	t.Helper()
	if len(table.Rows) == 0 || len(table.Columns) == 0 {
		t.Errorf("table %q is empty", table.Title)
	}
	for i, row := range table.Cells {
		for j, e := range row {
			if e.Path == "" || e.Baseline != "" {
				continue
			}
			at, column := fmt.Sprintf("%s: %q, %q", table.Title, table.Rows[i], table.Columns[j]), strings.Join(table.Columns[j], ", ")
			figure := e.Value != nil || e.Full != nil && e.Missing == "" || e.Runs != nil && len(e.Runs.Values) == 3
			shown[column] = shown[column] || figure || e.Missing == "rate not held"
			switch {
			case figure == (e.Missing != ""):
				t.Errorf("%s: figure: %v, reason why there is none: %q", at, figure, e.Missing)
			case strings.HasPrefix(e.Missing, "not m") && lost[e.Path] == "":
				t.Errorf("%s: %s, though the path was not lost", at, e.Missing)
			}
		}
	}
}

// ownCopy is this test binary under the name by which it is venturi, for itself and for the
// agents that it starts.
func ownCopy(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "venturi")
	if err := os.WriteFile(name, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}
