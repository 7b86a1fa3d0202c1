package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// grid is a table with its entries in their places.
type grid struct {
	title         string
	rows, columns [][]string // labels, one for each axis of the side
	cells         [][]entry  // by row, then column
}

// entry is what stands in one place of a table: a figure, or the ratio of one
// path to another.
type entry struct {
	Path        string                 `json:"path,omitempty"`
	Baseline    string                 `json:"against,omitempty"` // the path below the line of the ratio
	Wire        string                 `json:"wire,omitempty"`
	Load        string                 `json:"load,omitempty"`
	Rate        float64                `json:"rate,omitempty"`
	Background  *result.BackgroundLoad `json:"beside,omitempty"`
	Size        int                    `json:"size,omitempty"` // bytes
	Flows       int                    `json:"flows,omitempty"`
	Threads     int                    `json:"threads,omitempty"`
	Response    int                    `json:"response,omitempty"` // bytes of the answers, where it is not size
	Retransmits bool                   `json:"retransmits,omitempty"`
	CPU         bool                   `json:"cpu,omitempty"` // Value is CPU time
	Unit        string                 `json:"unit,omitempty"`
	Runs        *Runs                  `json:"runs,omitempty"`
	Full        *Full                  `json:"full,omitempty"`
	Value       *float64               `json:"value,omitempty"` // in Unit; retransmits for 10 s of sending
	Ratio       *stats.Ratio           `json:"ratio,omitempty"`
	Verdict     stats.Verdict          `json:"verdict,omitempty"`
	Reason      stats.Reason           `json:"reason,omitempty"`
	NoFigure    int                    `json:"no_figure,omitempty"` // slices that Value is without
	Missing     string                 `json:"missing,omitempty"`   // why there is no figure
	NotHeld     bool                   `json:"not_held,omitempty"`  // that is because the rate was not
	Emulated    string                 `json:"emulated,omitempty"`  // as that of the row that it is from

	inTable  bool // the table has this combination
	measured bool // and the record
	slices   int  // that the record has
}

func (g grid) holdsAny() bool {
	return slices.ContainsFunc(g.cells, func(row []entry) bool {
		return slices.ContainsFunc(row, func(e entry) bool { return e.measured })
	})
}

// coord is the position of an entry in a table: an index for each of [Axes].
type coord [5]int

// project keeps the axes of one side.
func (s coord) project(side []Axis) coord {
	for i, a := range Axes() {
		if !slices.Contains(side, a) {
			s[i] = -1
		}
	}
	return s
}

// before orders the places of one side.
func (s coord) before(o coord, side []Axis) int {
	for _, a := range side {
		i := slices.Index(Axes(), a)
		if s[i] != o[i] {
			return s[i] - o[i]
		}
	}
	return 0
}

// pathPair is a path, or a path and the baseline that it is compared with.
type pathPair struct{ arm, baseline string }

func (r pathPair) String() string {
	if r.baseline == "" {
		return sanitize.Text(r.arm)
	}
	return sanitize.Text(r.arm) + "/" + sanitize.Text(r.baseline)
}

// pathPairs lists the entries of the path axis.
func (t Table) pathPairs(host string) []pathPair {
	var out []pathPair
	for _, p := range t.Paths {
		out = append(out, pathPair{arm: p})
	}
	base := t.Baseline
	if base == "" {
		base = host
	}
	for _, against := range slices.Compact([]string{base, host}) {
		if !slices.Contains(t.Paths, against) {
			continue
		}
		for _, p := range t.Paths {
			// The host network against the baseline is said the other way round.
			if p != against && p != host {
				out = append(out, pathPair{p, against})
			}
		}
	}
	return out
}

// entries lists the coordinates of a table with their entries.
func (t Table) entries(host string) (places []coord, entries []entry) {
	sizes, flows, wires := t.sizes(), t.flows(), t.wires()
	for f, fig := range t.Figures {
		for _, size := range fig.Sizes {
			for _, n := range fig.Flows {
				for p, r := range t.pathPairs(host) {
					if fig.isAuxiliary() && r.baseline != "" {
						continue
					}
					for w, wire := range wires {
						if !t.onWire(r.arm, wire) || r.baseline != "" && !t.onWire(r.baseline, wire) {
							continue
						}
						e := entry{
							Path: r.arm, Baseline: r.baseline, Wire: wire, Load: fig.Load, Size: size, Flows: n, Threads: fig.Threads, Response: fig.Response, Rate: fig.Rate, Background: fig.Background,
							Retransmits: fig.Retransmits, CPU: fig.CPU, inTable: true,
						}
						if r.baseline == "" {
							e.Unit = fig.unit()
						}
						if fig.Full {
							e.Full = &Full{}
						}
						if fig.Runs {
							e.Runs = &Runs{unit: fig.unit()}
						}
						places = append(places, coord{p, w, f, slices.Index(sizes, size), slices.Index(flows, n)})
						entries = append(entries, e)
					}
				}
			}
		}
	}
	return places, entries
}

// isAuxiliary reports whether a figure is not the load's own, and so has no ratio.
func (f Figure) isAuxiliary() bool { return f.Retransmits || f.CPU || f.Full }

// unit is what its values are in; empty: they are counted.
func (f Figure) unit() string {
	switch {
	case f.Retransmits, f.Full:
		return ""
	case f.CPU:
		return cpuUnit
	}
	return f.Unit
}

// cpuUnit is of CPU time for the bytes of a stream.
const cpuUnit = "s/GB"

// LeastCPUSize is the message size, bytes, from which a stream's CPU time is
// counted for its bytes, and not for its messages.
const LeastCPUSize = result.LeastBytesSize

// wires are those of the table; one without a name if it does not go by them.
func (t Table) wires() []string {
	if len(t.Wires) == 0 {
		return []string{""}
	}
	return t.Wires
}

// onWire reports whether an arm is on a wire.
func (t Table) onWire(arm, wire string) bool {
	only, some := t.WiresOf[arm]
	return wire == "" || !some || slices.Contains(only, wire)
}

func (t Table) sizes() (all []int) {
	for _, f := range t.Figures {
		all = view.Union(all, f.Sizes)
	}
	return all
}

func (t Table) flows() (all []int) {
	for _, f := range t.Figures {
		all = view.Union(all, f.Flows)
	}
	return all
}

// Check tells whether each place of the table shows one thing only. The error
// names the axis that is missing.
func (t Table) Check() error {
	seen := map[[2]coord]coord{}
	places, _ := t.entries("")
	for _, s := range places {
		at := [2]coord{s.project(t.Rows), s.project(t.Columns)}
		other, taken := seen[at]
		seen[at] = s
		if !taken {
			continue
		}
		for i, a := range Axes() {
			if s[i] != other[i] {
				return fmt.Errorf("the table shows more than one %s, and has %s neither in its rows nor in its columns", a, a)
			}
		}
	}
	return nil
}

// grid lays the table out, without its figures.
func (t Table) grid(host string) grid {
	places, entries := t.entries(host)
	rows, columns := t.side(places, t.Rows), t.side(places, t.Columns)
	g := grid{title: t.title(), cells: make([][]entry, len(rows))}
	for i, s := range rows {
		g.rows, g.cells[i] = append(g.rows, t.labels(s, t.Rows, host)), make([]entry, len(columns))
	}
	for _, s := range columns {
		g.columns = append(g.columns, t.labels(s, t.Columns, host))
	}
	for n, s := range places {
		i, j := slices.Index(rows, s.project(t.Rows)), slices.Index(columns, s.project(t.Columns))
		if e := &g.cells[i][j]; !e.inTable {
			*e = entries[n]
		}
	}
	return g
}

// title says what the figures are where the sides of the table do not.
func (t Table) title() string {
	if t.has(ByLoad) {
		return t.Title
	}
	var names []string
	for _, f := range t.Figures {
		names = view.Union(names, []string{t.figureName(f)})
	}
	what := strings.Join(names, "; ")
	if t.Title == "" {
		return what
	}
	return t.Title + " (" + what + ")"
}

// side lists the rows, or the columns, in order.
func (t Table) side(places []coord, side []Axis) []coord {
	var out []coord
	seen := map[coord]bool{}
	for _, s := range places {
		if s = s.project(side); !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b coord) int { return a.before(b, side) })
	return out
}

func (t Table) labels(s coord, side []Axis, host string) []string {
	var out []string
	for _, a := range side {
		i := s[slices.Index(Axes(), a)]
		switch a {
		case ByPath:
			out = append(out, t.pathPairs(host)[i].String())
		case ByWire:
			out = append(out, sanitize.Text(t.wires()[i]))
		case ByLoad:
			out = append(out, t.figureName(t.Figures[i]))
		case BySize:
			out = append(out, unit.MessageSize(t.sizes()[i]))
		case ByFlows:
			out = append(out, view.Plural(t.flows()[i], "flow", "flows"))
		}
	}
	return out
}

// figureName says what a figure is, with its unit, and with the size that the
// sides of the table do not say.
func (t Table) figureName(f Figure) string {
	name := sanitize.Text(f.Name)
	if f.Name == "" {
		name = sanitize.Text(f.Load)
		if !t.has(BySize) {
			name += " " + unit.MessageSize(f.Sizes[0])
		}
		if !t.has(ByFlows) && f.Flows[0] > 1 {
			name += fmt.Sprintf(" x %d flows", f.Flows[0])
		}
	}
	if f.Retransmits {
		if f.Name == "" {
			name += " retransmits"
		}
		return name + fmt.Sprintf("/%d s", retransmitSeconds)
	}
	if f.Full {
		if f.Name == "" {
			name += " full"
		}
		return name
	}
	if f.CPU && f.Name == "" {
		name += " CPU"
	}
	return name + ", " + sanitize.Text(f.unit())
}

func (t Table) has(a Axis) bool {
	return slices.Contains(t.Rows, a) || slices.Contains(t.Columns, a)
}
