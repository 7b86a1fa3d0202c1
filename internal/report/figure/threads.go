package figure

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/chart"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

const (
	// namedKinds is how many kinds of threads have a colour of their own; one is left
	// for all others.
	namedKinds   = 7
	otherThreads = "other threads"
)

// threadsFigure shows which threads each path kept busy, and for how much of a core.
func threadsFigure(rec *result.Record, s *analysis.Summary) []Drawing {
	c := chart.Bars{Texts: chart.Texts{Title: "CPU time by thread", Desc: "How much of a core the threads of each path used while it was measured. A thread that uses all of a core limits its path."}}
	table := view.Block{Columns: []view.Column{view.Label("load"), view.Label("path"), view.Number("cores", 0), view.Label("threads busy")}}
	named := busiestKinds(s)
	for cell := range singleCells(s) {
		g := chart.BarGroup{Name: view.CellName(cell.Cell) + ": cores used by threads"}
		for i := range cell.Rows {
			r := &cell.Rows[i]
			if len(r.Threads) == 0 {
				continue
			}
			bar := threadBar(r, named)
			g.Bars = append(g.Bars, bar)
			table.Rows = append(table.Rows, []string{view.CellName(cell.Cell), bar.Name, bar.Text, view.ThreadText(r)})
		}
		if len(g.Bars) > 0 {
			c.Groups = append(c.Groups, g)
		}
	}
	if len(c.Groups) == 0 {
		return nil
	}
	return []Drawing{{name: "threads", Texts: c.Texts, Chart: c, Table: table}}
}

// threadNumber is what distinguishes threads of a kind: "ksoftirqd/1", "vhost-812",
// "kworker/u8:2", "ovs-vswitchd/pmd-c01/id:3".
var threadNumber = regexp.MustCompile(`([-/](u|c|id:)?\d+(:\d+)?)+$`)

// threadKind is the name of all threads that do the same.
func threadKind(t analysis.Thread) string {
	kind := threadNumber.ReplaceAllString(t.Name, "")
	if strings.Contains(kind, "/") { // a process numbers its threads without a sign, too
		kind = strings.TrimRight(kind, "0123456789")
	}
	return cmp.Or(strings.TrimSpace(sanitize.Text(kind)), otherThreads)
}

// busiestKinds are the kinds that used most over all paths and loads.
func busiestKinds(s *analysis.Summary) []string {
	sums := map[string]float64{}
	for _, cell := range s.Cells {
		for _, r := range cell.Rows {
			for _, t := range r.Threads {
				sums[threadKind(t)] += finite(t.Share)
			}
		}
	}
	delete(sums, otherThreads)
	kinds := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b))
	})
	return kinds[:min(namedKinds, len(kinds))]
}

// threadBar stacks the threads of a path, those of a kind beside each other.
func threadBar(r *analysis.Row, named []string) chart.Bar {
	b := chart.Bar{Name: sanitize.Text(r.Arm.Name)}
	cores := 0.0
	for _, kind := range append(slices.Clone(named), otherThreads) {
		for _, t := range r.Threads {
			of := threadKind(t)
			if !slices.Contains(named, of) {
				of = otherThreads
			}
			if of != kind {
				continue
			}
			cores += finite(t.Share)
			b.Parts = append(b.Parts, chart.Part{Name: kind, Value: finite(t.Share),
				Title: b.Name + ", " + view.ThreadName(t) + ": " + unit.Percent(t.Share) + " of a core"})
		}
	}
	b.Text = fmt.Sprintf("%.2f", cores)
	return b
}
