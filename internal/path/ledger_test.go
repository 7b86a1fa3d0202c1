package path_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/venturi-net/venturi/internal/path"
)

// ledger says what the suite did with each variant under one kernel. A variant
// that it had no chance to raise is not in it.
type ledger struct {
	mu   sync.Mutex
	book map[string]outcome // by spec
	bad  map[string]bool    // specs that failed anywhere
}

// outcome is what became of a variant: it ran, it failed, or what it lacks.
type outcome string

const (
	failed outcome = "FAILED"
	ran    outcome = "ran" // it was up, its content checked both ways, captured, and taken down
)

// suite is the ledger of this process.
var suite = ledger{book: map[string]outcome{}, bad: map[string]bool{}}

func (l *ledger) set(spec string, o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bad[spec] {
		o = failed
	}
	l.book[spec] = o
}

// run runs a part of a test that is about one variant; when it fails the variant
// has, whatever else it did.
func (v variant) run(t *testing.T, name string, part func(t *testing.T)) (good bool) {
	good = t.Run(name, part)
	if !good {
		suite.mu.Lock()
		suite.bad[v.spec] = true
		suite.mu.Unlock()
		suite.set(v.spec, failed)
	}
	return good
}

// begins says that variants are being raised: until they are done they failed.
func (l *ledger) begins(list []variant) {
	for _, v := range list {
		l.set(v.spec, failed)
	}
}

func (l *ledger) lacks(spec, what string) {
	l.set(spec, outcome("lacks "+strings.TrimPrefix(what, "this kernel has no ")))
}

// ledgerPrefix begins the line on which the suite in a guest says what is in its ledger.
const ledgerPrefix = "suite: "

func (l *ledger) tell() {
	text, err := json.Marshal(l.book)
	if err != nil {
		panic(err)
	}
	fmt.Printf("\n%s%s\n", ledgerPrefix, text)
}

// hear reads that line from what a guest printed; nil: it is not there.
func hear(text string) (book map[string]outcome) {
	for line := range strings.Lines(text) {
		if said, ok := strings.CutPrefix(strings.TrimSpace(line), ledgerPrefix); ok {
			_ = json.Unmarshal([]byte(said), &book) // nil if it is cut off
		}
	}
	return book
}

// column is what ran under one kernel.
type column struct {
	kernel string
	book   map[string]outcome
}

// matrix prints which driver ran where, and gives those that ran nowhere.
func matrix(columns []column) (text string, nowhere []string) {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	fmt.Fprint(w, "path suite")
	for _, c := range columns {
		fmt.Fprintf(w, "\t%s", c.kernel)
	}
	fmt.Fprintln(w)
	for _, d := range path.Table {
		somewhere := false
		for _, row := range rowsOf(d.Name) {
			fmt.Fprint(w, row.name)
			for _, c := range columns {
				fmt.Fprintf(w, "\t%s", c.cell(row.specs))
				somewhere = somewhere || slices.ContainsFunc(row.specs, func(s string) bool { return c.book[s] == ran })
			}
			fmt.Fprintln(w)
		}
		if !somewhere {
			nowhere = append(nowhere, d.Name)
		}
	}
	_ = w.Flush() // to memory
	return out.String(), nowhere
}

// row is a driver, on one of its datapaths if it has several.
type row struct {
	name  string
	specs []string
}

func rowsOf(driver string) (rows []row) {
	for _, v := range variants[driver] {
		name := driver
		if arms, err := path.Arms([]string{v.spec}, nil); err == nil && arms[0].Options["datapath"] != "" {
			name += ":datapath=" + arms[0].Options["datapath"]
		}
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
		if i < 0 {
			i, rows = len(rows), append(rows, row{name: name})
		}
		rows[i].specs = append(rows[i].specs, v.spec)
	}
	return rows
}

// cell says what became of the variants of a row, those that had a chance: "ran",
// or "FAILED 1, ran 2"; a dash where none had.
func (c column) cell(specs []string) string {
	count := map[outcome]int{}
	for _, s := range specs {
		if o := c.book[s]; o != "" {
			count[o]++
		}
	}
	var parts []string
	for _, o := range slices.Sorted(maps.Keys(count)) { // failures come first
		text := string(o)
		if len(count) > 1 && (o == ran || o == failed) {
			text += fmt.Sprintf(" %d", count[o])
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// The matrix says what ran where, and what ran nowhere.
func TestMatrix(t *testing.T) {
	tunnels := variants["vxlan"]
	here := map[string]outcome{"host": ran, "routed": "lacks routes"}
	for _, v := range tunnels {
		here[v.spec] = ran
	}
	other := map[string]outcome{"host": failed, tunnels[0].spec: ran, tunnels[1].spec: failed}
	text, nowhere := matrix([]column{{"here", here}, {"6.1", other}})
	if slices.Contains(nowhere, "host") || slices.Contains(nowhere, "vxlan") || !slices.Contains(nowhere, "routed") {
		t.Errorf("ran nowhere: %v", nowhere)
	}
	said := strings.Join(strings.Fields(text), " ")
	for _, want := range []string{"path suite here 6.1", "host ran FAILED", "routed lacks routes -", "vxlan ran FAILED 1, ran 1"} {
		if !strings.Contains(said, want) {
			t.Errorf("the matrix has no %q:\n%s", want, text)
		}
	}
	if book := hear("ok\n" + ledgerPrefix + `{"host":"ran"}` + "\nexit 0\n"); book["host"] != ran || hear("ok\n") != nil || hear(ledgerPrefix+`{"ho`) != nil {
		t.Errorf("heard %v", book)
	}
}
