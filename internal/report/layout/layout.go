// Package layout prints records as tables that somebody chose: as the write-up of a study
// prints them.
package layout

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/markdown"
	"github.com/venturi-net/venturi/internal/report/table"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/result"
)

// Layout prints a record as tables that somebody chose, in place of a block for
// each load: as a write-up that they are held against prints them.
type Layout struct {
	Name     string // of the study
	Title    string
	Question string // what the tables answer
	Tables   []Table
}

// Wired is the record of one wire of a study.
type Wired struct {
	Wire   string // its name; empty: the study has only one
	Record *result.Record
}

// Table lays figures out over rows and columns. Each path stands there with
// its figures, then each pair of paths with their ratio: every path to the
// baseline, and every path to the host network, as far as these two are among
// the paths.
type Table struct {
	Title         string
	Rows, Columns []Axis   // what changes from row to row, and from column to column; the first slowest
	Paths         []string // arms, in order
	Baseline      string   // arm; empty: the host network
	Wires         []string // in order, of a table that goes by them: it is of several records
	Figures       []Figure
	// WiresOf lists the wires of each arm that is not on all of them.
	WiresOf map[string][]string
}

// Axis is what changes along a side of a table.
type Axis string

// The axes.
const (
	ByPath  Axis = "path"
	ByWire  Axis = "wire"
	ByLoad  Axis = "load" // one after the other of Figures
	BySize  Axis = "size"
	ByFlows Axis = "flows"
)

// Axes lists them all.
func Axes() []Axis { return []Axis{ByPath, ByWire, ByLoad, BySize, ByFlows} }

// Figure is what a table shows of one load.
type Figure struct {
	Name  string // what the table calls it; empty: as the load
	Load  string
	Sizes []int // bytes
	Flows []int
	Unit  string // one of [Units]; none for Retransmits and CPU
	// Threads, Response, Rate and Background are those of the cells, which differ in nothing but
	// size and flows.
	Threads     int
	Response    int
	Rate        float64
	Background  *result.BackgroundLoad
	Retransmits bool // show these, in place of the load's own figure
	CPU         bool // show CPU time for 1e9 bytes received, seconds, in place of it
	Full        bool // show the threads and cores that had no time left, in place of it
	Runs        bool // show the first three series and their average, in place of it, and quotients of averages
	RealCPU     bool // it is of a load that is left out where the CPU is emulated
}

// nsPerSecond makes seconds of CPU time.
const nsPerSecond = 1e9

// ErrOtherRecord is a record that holds nothing of what a layout shows.
var ErrOtherRecord = errors.New("the record holds none of these paths with any of these loads")

// ErrMixed is records of which some were measured on an emulated CPU and some
// not: in one table they would be compared.
var ErrMixed = errors.New("some of these records were measured on an emulated CPU, and some on a real one")

// formats are the formats that a layout can be printed in.
var formats = []string{"table", "md", "json"}

// Formats names the formats that a layout can be printed in, the default first.
func Formats() []string { return slices.Clone(formats) }

// Write prints what l shows of records: one, or one a wire if the tables
// go by wires. Errors: an unknown format, a record without a plan
// ([analysis.ErrNoPlan]) or of something else ([ErrOtherRecord]), records that
// must not be compared ([ErrMixed]), or what w returned.
func Write(w io.Writer, recs []Wired, l Layout, opt view.Options) error {
	if opt.Format == "" {
		opt.Format = formats[0]
	}
	if !slices.Contains(formats, opt.Format) {
		return fmt.Errorf("choose report: tables have no format %q", opt.Format)
	}
	if opt.Width <= 0 {
		opt.Width = view.DefaultWidth
	}
	var all sources
	for _, r := range recs {
		src, err := newSource(r, l)
		if err != nil {
			return fmt.Errorf("analyse record: %w", err)
		}
		all = append(all, src)
	}
	if len(all) == 0 {
		return ErrOtherRecord
	}
	if slices.ContainsFunc(all, func(s *source) bool { return s.emulated() != all[0].emulated() }) {
		return ErrMixed
	}
	var grids []grid
	for _, t := range l.Tables {
		grids = append(grids, all.fill(t))
	}
	var err error
	if !slices.ContainsFunc(grids, grid.holdsAny) {
		return ErrOtherRecord
	}
	switch opt.Format {
	case "json":
		err = writeLayoutJSON(w, all, l, grids)
	case "md":
		err = markdown.WriteView(w, layoutView(all, l, grids, opt))
	default:
		err = table.WriteLayout(w, layoutView(all, l, grids, opt), opt.Width)
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// sources are the records of a study, one a wire.
type sources []*source

// find returns the record of a wire; nil: there is none. An empty name means the only wire.
func (all sources) find(wire string) *source {
	i := slices.IndexFunc(all, func(s *source) bool { return s.wire == wire || wire == "" })
	if i < 0 {
		return nil
	}
	return all[i]
}

// source is a record as layouts read it.
type source struct {
	wire string
	rec  *result.Record
	host string                       // name of the plan's baseline
	sums map[string]*analysis.Summary // by the arm that they compare with
}

func newSource(r Wired, l Layout) (*source, error) {
	rec := r.Record
	sum, err := analysis.Analyze(rec, analysis.Options{Live: true, Lateness: true})
	if err != nil {
		return nil, err
	}
	s := &source{wire: r.Wire, rec: rec, sums: map[string]*analysis.Summary{}}
	names := map[string]bool{}
	for _, a := range rec.Plan.Arms {
		names[a.Name] = true
		if a.Role == result.RoleBaseline {
			s.host = a.Name
		}
	}
	s.sums[s.host] = sum
	for _, t := range l.Tables {
		if s.sums[t.Baseline] != nil || !names[t.Baseline] {
			continue
		}
		against, err := analysis.Analyze(rec, analysis.Options{Live: true, Baseline: t.Baseline})
		if err != nil {
			return nil, err
		}
		s.sums[t.Baseline] = against
	}
	return s, nil
}

func (s *source) emulated() bool { return s.sums[s.host].Emulated }

// row finds an arm in the cell of an entry, compared with against; nil where there is none.
func (s *source) row(against, arm string, e *entry) (*analysis.Cell, *analysis.Row) {
	sum := s.sums[against]
	if sum == nil {
		return nil, nil
	}
	for i := range sum.Cells {
		c := &sum.Cells[i]
		if !e.shows(c.Cell) {
			continue
		}
		if r := c.Row(arm); r != nil {
			return c, r
		}
	}
	return nil, nil
}

// shows tells whether the entry has a figure of a cell.
func (e *entry) shows(c result.Cell) bool {
	if c.Load != e.Load || c.Size != e.Size || c.Flows != e.Flows || c.Threads != e.Threads || c.Response != e.Response || c.Rate != e.Rate || c.Batch > 1 {
		return false
	}
	if c.Background == nil || e.Background == nil {
		return c.Background == e.Background
	}
	return *c.Background == *e.Background
}

// fill looks up every entry of a table.
func (all sources) fill(t Table) grid {
	g := t.grid(all[0].host)
	for i := range g.cells {
		for j := range g.cells[i] {
			e := &g.cells[i][j]
			switch s := all.find(e.Wire); {
			case !e.inTable:
			case s != nil:
				s.entry(e)
			case e.Baseline == "":
				e.Missing = "no record of this wire"
			}
		}
	}
	return g
}

func (s *source) entry(e *entry) {
	if e.Runs != nil {
		s.runs(e)
	} else {
		s.figure(e)
	}
	if e.measured || e.Baseline != "" {
		return
	}
	switch _, r := s.row(s.host, e.Path, e); {
	case r == nil:
		e.Missing = "not measured"
	case view.WhyMissing(r) != "":
		e.Missing, e.NotHeld = view.WhyMissing(r), view.NotHeld(r)
	case e.Runs != nil:
		e.Missing = fmt.Sprintf("fewer than %d series", runs)
	default:
		e.Missing = "not metered"
	}
}

// figure looks up a figure or a ratio.
func (s *source) figure(e *entry) {
	if e.Baseline != "" {
		_, r := s.row(e.Baseline, e.Path, e)
		if r == nil || r.Ratio == nil {
			return
		}
		e.Ratio, e.Emulated, e.measured = r.Ratio, r.Emulated, true
		if r.Judged != nil {
			e.Verdict, e.Reason = r.Judged.Verdict, r.Judged.Reason
		}
		return
	}
	c, r := s.row(s.host, e.Path, e)
	v := 0.0
	switch {
	case r == nil:
	case e.Retransmits && r.Stream != nil:
		v, e.measured = r.Stream.RetransmitRate*retransmitSeconds, true
	case e.Retransmits:
	case e.Full != nil:
		if e.measured = len(r.Threads) > 0 || r.CPU != nil; e.measured {
			e.Full, e.Emulated = &Full{view.FullNames(r)}, r.Emulated
		}
		return
	case e.CPU && r.CPU != nil && r.CPU.Unit == analysis.PerGB:
		v, e.measured = r.CPU.Cost/nsPerSecond, true
	case !e.CPU && r.Value > 0:
		v, e.measured = inUnit(c.Cell, r.Value, e.Unit)
		e.NoFigure, e.slices = r.NoFigure, r.Slices
	}
	if e.measured {
		e.Value, e.Emulated = &v, r.Emulated
	}
}
