// Package view makes the text of a report from a record: facts, banners, blocks of figures
// and notes. The formats lay it out.
package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// Content is a report as text in its parts; the table and Markdown lay it out.
type Content struct {
	Title    string
	Banners  []string    // what a reader must know before any figure
	Answers  []answer    // one line a path, before the figures
	Machines [][2]string // label and text: the machines and what they differ in, if there are several; before the figures
	Blocks   []Block
	Facts    [][2]string // label and text: on what and how it was measured, but for Machines
	Notes    notes       // numbered, referred to from cells
	Remarks  []string    // on the whole report
}

// Block is one table: a cell of the plan.
type Block struct {
	Name    string // "tcp_lat 1 B"
	Caption string // "median RTT/2, lower is better"
	Floor   string // "noise floor ±0.8 %"
	Columns []Column
	Rows    [][]string
	Cpu     []CPULine // below the rows on a terminal; elsewhere it has columns
	Footer  string    // what the meters counted, below that
	// Ratios are those of the rows, nil where a row has none, and FloorSize is the noise
	// floor as a share, 0 where it is unknown. A terminal draws them as bars, in a column
	// before BarsAt.
	Ratios    []*stats.Ratio
	FloorSize float64
	BarsAt    int
	// Labels is how many columns say what a row is. Where it is set, the others
	// that are too many for a line go on below, each band behind these; no
	// column is left out.
	Labels int
}

// Column is one column of a block. When a table is too wide the columns with
// the highest rank go first; rank 0 always stays, and never is for formats
// whose tables have no width.
type Column struct {
	Head      string
	LeftAlign bool
	Rank      int
}

const RankMarkdownOnly = 100

func New(rec *result.Record, s *analysis.Summary, opt Options) *Content {
	v := &Content{Title: title(rec), Facts: Facts(rec, s), Banners: Banners(rec, s)}
	if machinesApart(rec) { // a figure is of both, and means little without them
		v.Machines, v.Facts = machineRows(rec), conditions(rec, s)
	}
	v.Blocks = blocks(rec, s, &v.Notes)
	if b, ok := agreementBlock(s); ok {
		v.Blocks = append(v.Blocks, b)
	}
	v.Answers = answers(s, opt.Width < briefWidth)
	v.Remarks = remarks(rec, s, opt.Verbose)
	if !opt.FastPathStats {
		return v
	}
	if b, ok := FastBlock(s); ok {
		v.Blocks = append(v.Blocks, b)
	} else {
		v.Remarks = append(v.Remarks, NoFastPath)
	}
	return v
}

// CellName is how a cell is headed: load, size, and what is unusual about it.
func CellName(c result.Cell) string {
	name := sanitize.Text(c.Load) + " " + unit.MessageSize(c.Size)
	if c.Response > 0 {
		name += ", " + unit.MessageSize(c.Response) + " back"
	}
	if c.Flows > 1 {
		name += fmt.Sprintf(" x %d flows", c.Flows)
	}
	if c.Threads > 0 {
		name += " on " + Plural(c.Threads, "thread", "threads")
	}
	if c.Batch > 1 {
		name += fmt.Sprintf(", %d messages a call", c.Batch)
	}
	if c.Rate > 0 {
		name += ", " + unit.ExactCount(c.Rate) + "/s"
	}
	if b := c.Background; b != nil {
		name += " beside " + backgroundName(b)
	}
	return name
}

// MetricCaption names the figure and says which direction is better.
func MetricCaption(c result.Cell) string {
	if c.Meaning != "" {
		better := "higher"
		if c.Metric.LowerIsBetter() {
			better = "lower"
		}
		return sanitize.Text(c.Meaning) + "; " + better + " is better"
	}
	switch c.Metric {
	case result.OneWay:
		if c.Flows > 1 {
			return "median RTT/2, one request at a time on each flow; lower is better"
		}
		return "median RTT/2, one request at a time; lower is better"
	case result.RoundTrip:
		return "median round trip from when each request was due; lower is better"
	case result.CPUPerPacket, result.CPUPerMessage, result.CPUPerGB:
		return fmt.Sprintf("CPU time of all cores for each %s at this rate; lower is better", unit.Work(c.Metric))
	case result.Transactions:
		return "requests answered; higher is better"
	case result.Connections:
		return "connections opened, used for one request and closed; higher is better"
	case result.Bandwidth:
		return "throughput at the receiver; higher is better"
	}
	return "messages at the receiver; higher is better"
}

func FloorText(c *analysis.Cell) string {
	switch f := c.Floor; {
	case f == nil:
		return "noise floor not measured"
	case f.Ratio.Open:
		return "noise floor unknown, too few series"
	case f.Invalid:
		return "TOO NOISY: two identical paths differ by " + unit.Change(f.Ratio.Value)
	default:
		return "noise floor ±" + unit.Percent(f.Size)
	}
}

// cellBlock lays out one cell. The columns depend on the kind of load only, so
// that blocks of one kind line up.
func cellBlock(c *analysis.Cell, rec *result.Record, s *analysis.Summary, n *notes) Block {
	b := Block{Name: CellName(c.Cell), Caption: MetricCaption(c.Cell), Floor: FloorText(c)}
	base := sanitize.Text(c.Baseline)
	cols := []field{
		{Column{"path", true, 0}, func(r *analysis.Row) string { return sanitize.Text(r.Arm.Name) }},
		{Column{FigureHead(c.Cell.Metric), false, 0}, func(r *analysis.Row) string { return unit.Value(c.Cell.Metric, r.Value) }},
		{Column{"vs " + base, false, 0}, func(r *analysis.Row) string { return RatioText(r) }},
		{Column{unit.ExactPercent(s.Level) + " interval", false, 1}, func(r *analysis.Row) string { return Interval(r.Ratio) }},
		{Column{verdictHead, true, 0}, func(r *analysis.Row) string {
			return strings.TrimSpace(Verdict(r) + n.Marks(rowNotes(r, c, rec, s)))
		}},
	}
	cols = append(append(cols, trafficColumns(c)...), spreadColumns(c)...)
	cols = append(cols, cpuColumns(c, base)...)
	cols = append(append(cols, cpuFields(c)...), threadFields(c)...)
	for _, f := range cols {
		b.Columns = append(b.Columns, f.Column)
	}
	for i := range c.Rows {
		var row []string
		for _, f := range cols {
			row = append(row, f.text(&c.Rows[i]))
		}
		b.Rows, b.Ratios = append(b.Rows, row), append(b.Ratios, c.Rows[i].Ratio)
	}
	b.BarsAt = slices.IndexFunc(cols, func(f field) bool { return f.Head == verdictHead })
	if f := c.Floor; f != nil && !f.Invalid && !f.Ratio.Open {
		b.FloorSize = f.Size
	}
	b.Cpu, b.Footer = cpuLines(c), trouble(c)
	return b
}

// verdictHead heads the column behind the bars.
const verdictHead = "verdict"

func FigureHead(m result.Metric) string {
	switch m {
	case result.OneWay:
		return "RTT/2"
	case result.RoundTrip:
		return "RTT"
	case result.CPUPerPacket, result.CPUPerMessage, result.CPUPerGB:
		return "CPU/" + unit.Work(m)
	case result.Transactions, result.Connections:
		return "rate"
	}
	return "received"
}

func RatioText(r *analysis.Row) string {
	if r.Ratio == nil {
		return ""
	}
	return unit.Ratio(r.Ratio.Value)
}

func Interval(r *stats.Ratio) string {
	if r == nil || r.Open {
		return ""
	}
	return "[" + unit.Ratio(r.Lo) + ", " + unit.Ratio(r.Hi) + "]"
}

// plusMinus is a ratio with its interval in short.
func plusMinus(r stats.Ratio) string {
	half, ok := r.HalfWidth()
	if !ok {
		return unit.Ratio(r.Value)
	}
	return unit.Ratio(r.Value) + " ±" + unit.Percent(half)
}

// The words of a stream with a rate, whose figure is CPU time.
const (
	cheaper     = "cheaper"
	costlier    = "costlier"
	rateNotHeld = "rate not held"
)

// differs is the word for a proven difference.
func differs(r *analysis.Row) string { return DifferenceWord(r.Judged.Verdict, r.Offered != nil) }

// DifferenceWord is what faster and slower are called, of CPU time or of anything else.
func DifferenceWord(v stats.Verdict, cpu bool) string {
	switch {
	case !cpu:
		return string(v)
	case v == stats.Faster:
		return cheaper
	}
	return costlier
}

// NotHeld tells of a rate that the path, or the sender, did not hold.
func NotHeld(r *analysis.Row) bool {
	return r.Offered != nil && !r.Offered.Reached && r.Failed == "" && r.Slices > 0
}

// Verdict is the answer of a row in words.
func Verdict(r *analysis.Row) string {
	switch {
	case NotHeld(r):
		return "NOT HELD"
	case r.Value == 0:
		return "FAILED"
	case r.Judged == nil && r.Arm.Role == result.RoleBaseline:
		return "baseline"
	case r.Judged == nil:
		return "not compared"
	}
	switch {
	case r.Foreign():
		return string(r.Judged.Reason)
	case r.Judged.Verdict == stats.Faster || r.Judged.Verdict == stats.Slower:
		return differs(r) + " " + unit.Change(r.Ratio.Value)
	}
	return UndecidedText(r.Judged)
}

// UndecidedText is a judgement that names no difference, in words.
func UndecidedText(j *stats.Judgement) string {
	switch {
	case j.Verdict == stats.CannotTell && j.Detectable > 0:
		return "cannot tell < " + unit.Percent(j.Detectable)
	case j.Verdict == stats.NotJudged:
		return "not judged"
	}
	return string(j.Verdict)
}

// agreementBlock shows the other tools that ran beside ours.
func agreementBlock(s *analysis.Summary) (Block, bool) {
	b := Block{Name: "agreement", Caption: "ours to another tool on the same path, run by run; latency is the mean RTT/2",
		Columns: []Column{{"load", true, 0}, {"path", true, 0}, {"tool", true, 0}, {"ours", false, 1}, {"tool's", false, 1},
			{"ours/tool", false, 0}, {unit.ExactPercent(s.Level) + " interval", false, 0}, {"CPU ours/tool", false, 1}, {"pairs", false, 2}}}
	for _, c := range s.Cells {
		for _, a := range c.Agreement {
			cpu := unit.NoFigure
			if a.CPU != nil {
				cpu = plusMinus(*a.CPU)
			}
			b.Rows = append(b.Rows, []string{CellName(c.Cell), sanitize.Text(a.Arm), sanitize.Text(a.Tool),
				unit.Value(c.Cell.Metric, a.Venturi), unit.Value(c.Cell.Metric, a.External),
				unit.Ratio(a.Ratio.Value), Interval(&a.Ratio), cpu, fmt.Sprint(a.Ratio.Rounds)})
		}
	}
	return b, len(b.Rows) > 0
}

// DropEmpty leaves out the columns in which no row has a figure.
func (b *Block) DropEmpty() {
	for i := len(b.Columns) - 1; i >= 0; i-- {
		if slices.ContainsFunc(b.Rows, func(row []string) bool { return row[i] != unit.NoFigure }) {
			continue
		}
		b.Columns = slices.Delete(b.Columns, i, i+1)
		for j := range b.Rows {
			b.Rows[j] = slices.Delete(b.Rows[j], i, i+1)
		}
	}
}

// Label is a column of text that always stays.
func Label(head string) Column { return Column{Head: head, LeftAlign: true} }

// Number is a column of figures; its rank says how early it goes.
func Number(head string, rank int) Column { return Column{Head: head, Rank: rank} }
