// Package study reads study files: which machines, wires, paths and loads to
// compare, for how long, and which tables to print of it. A study is carried
// out by compare and printed by report; this package knows what it says.
//
// A file is refused, with the line, for anything that could not be carried out
// on any machine. Whether this machine can is another question.
package study

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/report/layout"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
	"github.com/venturi-net/venturi/studies"
)

// Study is a study file that has been read and checked.
type Study struct {
	Name     string
	Title    string // one line
	Question string // empty: none is told
	Source   string // the write-up that it is held against; empty: none
	Hosts    int    // machines of the lab; 0: two
	Services int    // whose rules the machines carry
	Cores    string // that the machines are confined to, as lab.ParseCores takes them; empty: none
	Wires    []Wire // at least one
	Paths    []Path // the host network first
	// WiresOf lists the wires of each path that is not on all of them.
	WiresOf map[string][]string
	Loads   []Load
	Budget  time.Duration // over all wires; 0: as long as a comparison takes by default
	// EmulatedBudget is in place of Budget where the CPU is emulated; 0: Budget is.
	EmulatedBudget time.Duration
	Margin         float64 // 0: the default
	// ToolTime is how long a real tool runs at a time; 0: the default.
	ToolTime time.Duration
	Tables   []layout.Table
}

// Wire is one way to join the machines. A study is one comparison a wire.
type Wire struct {
	Name    string // empty: the only wire
	Options string // as lab.ParseWire takes them
}

// Path is one arm of the study.
type Path struct {
	Name string
	Spec string // driver and options, as path.ParseSpec takes them
}

// Load is what is measured on each path.
type Load struct {
	compare.CellSpec
	RealCPU bool // left out where the CPU is emulated, with its figures
}

// mostBytes is more than any study takes: a larger file is something else.
const mostBytes = 1 << 20

const extension = ".yaml"

// Names lists the studies that come with Venturi.
func Names() []string {
	files, _ := fs.Glob(studies.Files, "*"+extension) // the pattern is sound
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f, extension))
	}
	return names
}

// Open reads the study of a name that comes with Venturi, or of a file.
// Errors are for a user.
func Open(name string) (*Study, error) {
	if slices.Contains(Names(), name) {
		data, err := studies.Files.ReadFile(name + extension)
		if err != nil {
			return nil, fmt.Errorf("read study %s: %w", name, err)
		}
		return Parse(path.Join("studies", name+extension), data)
	}
	what := "cannot read the study " + name
	if !strings.ContainsRune(name, filepath.Separator) && !strings.Contains(name, ".") {
		return nil, verr.New(verr.Usage, what, "no study of that name comes with Venturi",
			"choose one of: "+strings.Join(Names(), ", ")+"; or name a file, such as ./"+name+extension)
	}
	data, err := readFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, verr.Wrap(verr.Usage, what, err, "name a study file, or one of: "+strings.Join(Names(), ", "))
	case err != nil:
		return nil, verr.Wrap(verr.Failed, what, err, "make the file readable for this user")
	case len(data) > mostBytes:
		return nil, verr.New(verr.Usage, what, fmt.Sprintf("it is larger than %d bytes", mostBytes), "name a study file")
	}
	return Parse(name, data)
}

// readFile reads a file as far as a study can go, and one byte beyond.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostBytes+1))
}

// Requests are the comparisons that the study is made of, one a wire. They
// share the budget.
func (s *Study) Requests() []compare.Request {
	var all []compare.Request
	var cells []compare.CellSpec
	for _, l := range s.Loads {
		cells = append(cells, l.CellSpec)
	}
	for _, w := range s.Wires {
		q := compare.Request{
			Cells: cells, Wire: w.Options, Hosts: s.Hosts, Services: s.Services, Cores: s.Cores,
			Budget: s.Budget / time.Duration(len(s.Wires)), Margin: s.Margin, ToolTime: s.ToolTime,
		}
		for _, p := range s.pathsOn(w) {
			q.Paths, q.Names = append(q.Paths, p.Spec), append(q.Names, p.Name)
		}
		all = append(all, q)
	}
	return all
}

// Folders names the folders of the study's records, given that of its run: one
// a wire, below it where there are several.
func (s *Study) Folders(run string) []string {
	if len(s.Wires) == 1 {
		return []string{run}
	}
	var all []string
	for _, w := range s.Wires {
		all = append(all, filepath.Join(run, w.Name))
	}
	return all
}

// pathsOn lists the paths of a wire: all of them, of one that is none of the study's.
func (s *Study) pathsOn(w Wire) []Path {
	known := slices.ContainsFunc(s.Wires, func(o Wire) bool { return o.Name == w.Name })
	return slices.DeleteFunc(slices.Clone(s.Paths), func(p Path) bool {
		only, some := s.WiresOf[p.Name]
		return known && some && !slices.Contains(only, w.Name)
	})
}

// Layout is what to print of the record of one wire.
func (s *Study) Layout(w Wire) layout.Layout {
	var names []string
	for _, p := range s.pathsOn(w) {
		names = append(names, p.Name)
	}
	return s.layout(func(t *layout.Table) bool {
		t.Paths = slices.DeleteFunc(slices.Clone(t.Paths), func(p string) bool { return !slices.Contains(names, p) })
		return len(t.Wires) == 0
	})
}

// CrossWireLayout is the layout of the tables that cover all wires.
func (s *Study) CrossWireLayout() layout.Layout {
	return s.layout(func(t *layout.Table) bool { return len(t.Wires) > 0 })
}

func (s *Study) layout(keep func(*layout.Table) bool) layout.Layout {
	l := layout.Layout{Name: s.Name, Title: s.Title, Question: s.Question}
	for _, t := range s.Tables {
		if keep(&t) {
			l.Tables = append(l.Tables, t)
		}
	}
	return l
}

// WireOf finds the wire that a record is of, by the offloads that it had; false
// if it is of none of the study's.
func (s *Study) WireOf(plan result.Plan) (Wire, bool) {
	for _, w := range s.Wires {
		if full, err := lab.ParseWire(w.Options); err == nil && full.String() == plan.Wire {
			return w, true
		}
	}
	return Wire{}, false
}

// OtherWire is the wire of a record that is of none of the study's: the only one, or else one that is called
// by its options, so that nobody takes it for one of them.
func (s *Study) OtherWire(plan result.Plan) Wire {
	if !plan.OneHost() || s.Wires[0].Name == "" {
		return s.Wires[0]
	}
	return Wire{Name: cmp.Or(plan.Wire, "other")}
}
