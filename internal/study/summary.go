package study

import (
	"time"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/result"
)

// Summary is what a study does and takes, for programs. Times are in seconds.
type Summary struct {
	Name           string        `json:"name"`
	Title          string        `json:"title"`
	Question       string        `json:"question,omitempty"`
	Source         string        `json:"source,omitempty"`
	Machines       int           `json:"machines"`
	Services       int           `json:"services"`
	Cores          string        `json:"cores,omitempty"` // of the machines; absent: they share all
	Wires          []SummaryWire `json:"wires"`
	Paths          []SummaryPath `json:"paths"`
	Loads          []SummaryLoad `json:"loads"`
	Tables         []string      `json:"tables"` // titles
	Arms           int           `json:"arms"`   // with the copy of the host network
	Cells          int           `json:"cells"`
	Series         int           `json:"series"`
	Rounds         int           `json:"rounds"`                      // a series
	Budget         float64       `json:"budget_s,omitempty"`          // over all wires; absent: none
	EmulatedBudget float64       `json:"emulated_budget_s,omitempty"` // in place of budget_s on an emulated CPU; absent: budget_s is
	ToolTime       float64       `json:"tool_time_s,omitempty"`       // for which a real tool runs at a time; absent: the default
	Measures       float64       `json:"measures_s"`                  // how long measuring takes, over all wires
}

// SummaryWire is one wire, with all of its options.
type SummaryWire struct {
	Name    string `json:"name,omitempty"`
	Options string `json:"options"`
}

// SummaryPath is one path, and whether it can be raised on this machine.
type SummaryPath struct {
	Name      string   `json:"name"`
	Path      string   `json:"path"`            // with its options, as the command line takes it
	Supported string   `json:"here"`            // yes, no, could not tell
	Lacks     string   `json:"lacks,omitempty"` // why not
	Wires     []string `json:"wires,omitempty"` // that it is on; absent: all
}

// SummaryLoad is a load with its sizes and numbers of flows; absent ones are
// the load's own size, and one flow.
type SummaryLoad struct {
	summaryCell
	RealCPU bool `json:"real_cpu_only,omitempty"` // left out where the CPU is emulated
}

// summaryCell is a [compare.CellSpec] as it is printed.
type summaryCell struct {
	Load    string  `json:"load"`
	Sizes   string  `json:"sizes,omitempty"`
	Flows   []int   `json:"flows,omitempty"`
	Threads int     `json:"threads,omitempty"` // that the flows are dealt out to; 0: as the load does by itself
	Rate    float64 `json:"rate,omitempty"`    // per second; 0: the load's own
	Tool    string  `json:"tool,omitempty"`    // the real program that runs it; empty: none does

	Response int `json:"response,omitempty"` // bytes of the answers; 0: as many as the requests

	Background *result.BackgroundLoad `json:"beside,omitempty"` // what runs beside it; nil: nothing
	Curve      string                 `json:"curve,omitempty"`  // see compare.CellSpec
}

// measures is how long measuring takes, over all wires.
func (s *Study) measures() (sum time.Duration, err error) {
	for _, q := range s.Requests() {
		plan, err := q.Plan()
		if err != nil {
			return 0, err
		}
		sum += experiment.Duration(plan, compare.Slow())
	}
	return sum, nil
}

// Summary lays the study out and asks the machine what it lacks for it. Nothing
// is raised.
func (s *Study) Summary() (Summary, error) {
	plan, err := s.Requests()[0].Plan()
	if err != nil {
		return Summary{}, err
	}
	arms, err := s.arms()
	if err != nil {
		return Summary{}, err
	}
	took, err := s.measures()
	if err != nil {
		return Summary{}, err
	}
	sum := Summary{
		Name: s.Name, Title: s.Title, Question: s.Question, Source: s.Source,
		Machines: max(s.Hosts, lab.DefaultHosts), Services: s.Services, Cores: s.Cores,
		Arms: len(plan.Arms), Cells: len(plan.Cells), Series: plan.Series, Rounds: plan.Rounds,
		Budget: s.Budget.Seconds(), EmulatedBudget: s.EmulatedBudget.Seconds(), Measures: took.Seconds(), ToolTime: s.ToolTime.Seconds(),
	}
	for _, w := range s.Wires {
		full, err := lab.ParseWire(w.Options)
		if err != nil {
			return Summary{}, err
		}
		sum.Wires = append(sum.Wires, SummaryWire{w.Name, full.String()})
	}
	for i, a := range arms {
		p := SummaryPath{Name: a.Name, Wires: s.WiresOf[a.Name], Path: s.Paths[i].Spec, Supported: a.Supported().String()}
		if err := a.Check(); err != nil {
			p.Supported, p.Lacks = feature.No.String(), err.Error()
		}
		sum.Paths = append(sum.Paths, p)
	}
	for _, l := range s.Loads {
		sum.Loads = append(sum.Loads, SummaryLoad{summaryCell(l.CellSpec), l.RealCPU})
	}
	for _, t := range s.Tables {
		sum.Tables = append(sum.Tables, t.Title)
	}
	return sum, nil
}
