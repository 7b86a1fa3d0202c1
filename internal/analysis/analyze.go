package analysis

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// Options of [Analyze].
type Options struct {
	// Live leaves out what only a finished report needs and what takes time:
	// percentiles with their intervals.
	Live bool
	// Lateness reads, of a Live report too, how late requests on a schedule left.
	Lateness bool
	// Resamples of the bootstrap; 0 means 300.
	Resamples int
	// Baseline names the arm that the others are compared with; empty: the
	// baseline of the plan. It cannot be the baseline's copy or a tool's. The
	// noise floor stays that of the baseline's copy.
	// The plan's baseline then has no row: its ratio is one that it has the
	// other way round without Against, and need not be tested twice.
	Baseline string
}

// ErrNoPlan is a record that was cut before its plan: there is nothing to
// analyse.
var ErrNoPlan = errors.New("record has no plan")

// Analyze makes a summary of a record that may still grow: any number of
// series, the last one incomplete. It does not change the record.
func Analyze(rec *result.Record, opt Options) (*Summary, error) {
	a, err := newAnalyzer(rec, opt)
	if err != nil {
		return nil, err
	}
	return a.summary(), nil
}

func newAnalyzer(rec *result.Record, opt Options) (*analyzer, error) {
	p := &rec.Plan
	base := slices.IndexFunc(p.Arms, func(a result.Arm) bool { return a.Role == result.RoleBaseline })
	if base < 0 || len(p.Cells) == 0 {
		return nil, ErrNoPlan
	}
	against := base
	if opt.Baseline != "" {
		against = slices.IndexFunc(p.Arms, func(a result.Arm) bool { return a.Name == opt.Baseline })
	}
	if against < 0 {
		return nil, fmt.Errorf("compare with arm %q: the record has none of that name", opt.Baseline)
	}
	if _, _, tool := toolArm(p.Arms[against]); tool || p.Arms[against].Role == result.RoleCopy {
		return nil, fmt.Errorf("compare with arm %q: it is no path of its own", opt.Baseline)
	}
	a := &analyzer{plan: p, opt: opt, base: p.Arms[base], baseline: p.Arms[against], data: index(rec)}
	a.design = stats.Design{Confidence: p.Confidence, Looks: looks(p), Anytime: p.UntilDecided}
	a.emulated = rec.Emulated()
	return a, nil
}

func (a *analyzer) summary() *Summary {
	s := &Summary{Level: a.design.Level(), Looks: a.design.Looks, Emulated: a.emulated}
	for _, c := range a.plan.Cells {
		if cell, ok := a.cell(c); ok {
			s.Cells = append(s.Cells, cell)
		} else {
			s.Unmeasured = append(s.Unmeasured, cell)
		}
	}
	judge(s, a.plan, a.design)
	progress(s, a.plan)
	return s
}

// looks counts the moments at which the run could end by what it measured.
func looks(p *result.Plan) int {
	if p.Precision <= 0 {
		return 1
	}
	n := 1 // the end of the plan
	for _, at := range p.Looks {
		if at < p.Series {
			n++
		}
	}
	return n
}

type analyzer struct {
	plan     *result.Plan
	opt      Options
	base     result.Arm // its copy gives the noise floor
	baseline result.Arm // what the others are compared with
	data     map[key]*armData
	design   stats.Design

	emulated bool // the machine's CPU is
}

// cell analyses one cell; false when nothing was measured in it.
func (a *analyzer) cell(c result.Cell) (Cell, bool) {
	out := Cell{Cell: c, Baseline: a.baseline.Name}
	host, base := a.data[key{c.Name, a.base.Name}], a.data[key{c.Name, a.baseline.Name}]
	found := false
	rows := a.rows(c, host, base)
	for i, arm := range a.plan.Arms {
		d := a.data[key{c.Name, arm.Name}]
		if d == nil {
			d = &armData{}
		}
		found = found || len(d.slices) > 0
		if tool, of, ok := toolArm(arm); ok {
			if ours := a.data[key{c.Name, of}]; ours != nil {
				out.agree(tool, of, ours, d, a.design)
			}
			continue
		}
		switch {
		case arm.Role == result.RoleCopy:
			out.Copy = &rows[i]
			if host != nil {
				if f, ok := stats.NewFloor(a.pair(c, d, host), a.design, a.plan.Margin); ok {
					out.Floor = &f
				}
			}
		case arm.Name == a.baseline.Name:
			out.Rows = slices.Insert(out.Rows, 0, rows[i])
		case arm.Role != result.RoleBaseline:
			out.Rows = append(out.Rows, rows[i])
		}
	}
	if base != nil {
		values := a.values(c, base)
		out.Lag1, out.series = stats.Lag1(values), len(values)
	}
	return out, found
}

// rows are those of all arms of the plan, in its order. The percentiles of a long record take
// seconds, so several are made at once.
func (a *analyzer) rows(c result.Cell, host, base *armData) []Row {
	out := make([]Row, len(a.plan.Arms))
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i, arm := range a.plan.Arms {
		if _, _, tool := toolArm(arm); tool {
			continue
		}
		d, against := a.data[key{c.Name, arm.Name}], base
		if d == nil {
			d = &armData{}
		}
		if arm.Role == result.RoleCopy {
			against = host
		}
		work.Go(func() error {
			out[i] = a.row(c, arm, d, against)
			return nil
		})
	}
	_ = work.Wait() // no row fails
	return out
}

func (a *analyzer) row(c result.Cell, arm result.Arm, d, base *armData) Row {
	r := Row{Arm: arm, Fragments: fragments(c, arm)}
	switch {
	case arm.Emulated:
		r.Emulated = EmulatedPath
	case a.emulated:
		r.Emulated = EmulatedMachine
	}
	for _, s := range d.slices {
		all, blank := s.Counts(c.Metric)
		if blank > 0 && r.NoFigure == 0 {
			r.Failed = s.Failed
		}
		r.Slices, r.NoFigure = r.Slices+all, r.NoFigure+blank
	}
	a.latency(&r, d)
	a.stream(&r, c, d)
	a.cpu(&r, c, d, base)
	r.Background = d.background(c)
	if c.Metric.IsCPU() {
		a.paced(&r, c, d, base)
	} else {
		a.figure(&r, c, d, base)
	}
	r.Spread = d.spread()
	r.Threads = d.threads()
	r.Counters, r.MachineCounters = d.counters()
	r.FastPath = d.fastPath()
	return r
}

// figure fills in the row's figure, and its ratio to the baseline.
func (a *analyzer) figure(r *Row, c result.Cell, d, base *armData) {
	if v := medianOfMedians(d.values(c.Metric)); !math.IsNaN(v) {
		r.Value = v
	}
	if r.Arm.Name != a.baseline.Name && base != nil {
		if ratio, ok := stats.FromRounds(pair(d, base, valueOf(c.Metric)), a.design); ok {
			r.Ratio = &ratio
		}
	}
}

// MostBlank is the share of slices without a figure up to which an arm is
// judged. Where little comes through, the slices that have a figure are the
// better ones, and a verdict would be on those alone.
const MostBlank = 0.1

// Blank tells whether the row has too few figures to be judged, or to judge
// others by.
func (r *Row) Blank() bool { return float64(r.NoFigure) > MostBlank*float64(r.Slices) }

// blank tells whether a row cannot be compared with the baseline because one of
// the two has too few figures.
func (c *Cell) blank(r *Row) bool { return r.Blank() || c.Rows[0].Blank() }

// foreign tells whether a row cannot be compared with the baseline because the
// CPU of one of the two is emulated. Two such are not compared either: each has
// a machine of its own, and how busy the real one was decides between them.
func (c *Cell) foreign(r *Row) bool { return r.Arm.Emulated || c.Rows[0].Arm.Emulated }

// judge gives the verdicts: the correction for many comparisons is over every
// row of the record that is tested at all.
func judge(s *Summary, p *result.Plan, d stats.Design) {
	var rows []*Row
	var ps []float64
	for i := range s.Cells {
		c := &s.Cells[i]
		for j := range c.Rows {
			r := &c.Rows[j]
			r.Adjusted = 1
			if r.Ratio == nil || r.Ratio.Open || c.blank(r) || c.foreign(r) || c.Floor != nil && c.Floor.Invalid {
				continue
			}
			rows = append(rows, r)
			ps = append(ps, r.Ratio.P)
		}
	}
	s.Tests = len(ps)
	correct := stats.Holm
	if p.UntilDecided {
		correct = stats.EBH
	}
	for i, p := range correct(ps) {
		rows[i].Adjusted = p
	}
	for i := range s.Cells {
		c := &s.Cells[i]
		rule := stats.Criterion{
			Margin: p.Margin, LowerIsBetter: c.Cell.Metric.LowerIsBetter(), Alpha: d.Alpha(), Floor: c.Floor,
		}
		for j := range c.Rows {
			r := &c.Rows[j]
			if r.Ratio == nil {
				continue
			}
			judged := stats.Judge(*r.Ratio, r.Adjusted, rule)
			if c.foreign(r) {
				judged = stats.Judgement{Reason: stats.Emulated}
			} else if c.blank(r) && judged.Verdict != stats.NotJudged && judged.Reason != stats.TooFew {
				judged = stats.Judgement{Verdict: stats.CannotTell, Reason: stats.Blank}
			}
			r.Judged = &judged
		}
	}
}

// progress says how narrow the intervals are and whether the run may stop.
func progress(s *Summary, p *result.Plan) {
	s.Precise = len(s.Cells) == len(p.Cells)
	s.Series = -1
	intervals := 0
	for _, c := range s.Cells {
		rows := c.Rows
		if c.Copy != nil {
			rows = append(slices.Clone(rows), *c.Copy)
		}
		most := c.series
		for _, r := range rows {
			if r.Ratio == nil || r.Foreign() {
				continue
			}
			intervals++
			half, ok := r.Ratio.HalfWidth()
			s.Worst = max(s.Worst, half)
			if !ok || r.Ratio.WithinSeries || half > p.Precision {
				s.Precise = false
			}
		}
		if s.Series < 0 || most < s.Series {
			s.Series = most
		}
		s.MostSeries = max(s.MostSeries, most)
	}
	s.Series = max(0, s.Series)
	s.Precise = s.Precise && intervals > 0 && p.Precision > 0
	s.Stop = s.Precise && slices.Contains(p.Looks, s.Series)
}
