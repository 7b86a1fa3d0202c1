package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// view is a report as text in its parts; the table and Markdown lay it out.
type view struct {
	title   string
	facts   [][2]string // label and text
	banners []string    // what a reader must know before any figure
	blocks  []block
	answers []answer // one line a path, before the figures
	closing []string // the same over all loads, after them
	notes   notes    // numbered, referred to from cells
	remarks []string // on the whole report
}

// block is one table: a cell of the plan.
type block struct {
	name    string // "tcp_lat 1 B"
	caption string // "median RTT/2, lower is better"
	floor   string // "noise floor ±0.8 %"
	columns []column
	rows    [][]string
	cpu     []cpuLine // below the rows on a terminal; elsewhere it has columns
	footer  string    // what the meters counted, below that
	// labels is how many columns say what a row is. Where it is set, the others
	// that are too many for a line go on below, each band behind these; no
	// column is left out.
	labels int
}

// column is one column of a block. When a table is too wide the columns with
// the highest rank go first; rank 0 always stays, and never is for formats
// whose tables have no width.
type column struct {
	head      string
	leftAlign bool
	rank      int
}

const rankMarkdownOnly = 100

func newView(rec *result.Record, s *analysis.Summary, opt Options) *view {
	v := &view{title: title(rec), facts: facts(rec, s), banners: banners(rec, s)}
	v.blocks = blocks(rec, s, &v.notes)
	if b, ok := agreementBlock(s); ok {
		v.blocks = append(v.blocks, b)
	}
	v.answers, v.closing = answers(s, opt.Width), closing(s)
	v.remarks = remarks(rec, s, opt.Verbose)
	if !opt.AccelStats {
		return v
	}
	if b, ok := fastBlock(s); ok {
		v.blocks = append(v.blocks, b)
	} else {
		v.remarks = append(v.remarks, noFastPath)
	}
	return v
}

// cellName is how a cell is headed: load, size, and what is unusual about it.
func cellName(c result.Cell) string {
	name := sanitize.Text(c.Load) + " " + bytesSize(c.Size)
	if c.Flows > 1 {
		name += fmt.Sprintf(" x %d flows", c.Flows)
	}
	if c.Batch > 1 {
		name += fmt.Sprintf(", %d messages a call", c.Batch)
	}
	if c.Rate > 0 {
		name += ", " + offered(c.Rate) + "/s"
	}
	if b := c.Background; b != nil {
		name += " beside " + backgroundName(b)
	}
	return name
}

// metricCaption names the figure and says which direction is better.
func metricCaption(c result.Cell) string {
	switch c.Metric {
	case result.OneWay:
		if c.Flows > 1 {
			return "median RTT/2, one request at a time on each flow; lower is better"
		}
		return "median RTT/2, one request at a time; lower is better"
	case result.RoundTrip:
		return "median round trip from when each request was due; lower is better"
	case result.CPUPerPacket, result.CPUPerMessage, result.CPUPerGB:
		return fmt.Sprintf("CPU time of all cores for each %s at this rate; lower is better", perWhat(c.Metric))
	case result.Transactions:
		return "requests answered; higher is better"
	case result.Connections:
		return "connections opened, used for one request and closed; higher is better"
	case result.Bandwidth:
		return "throughput at the receiver; higher is better"
	}
	return "messages at the receiver; higher is better"
}

func floorText(c *analysis.Cell) string {
	switch f := c.Floor; {
	case f == nil:
		return "noise floor not measured"
	case f.Ratio.Open:
		return "noise floor unknown, too few rounds"
	case f.Invalid:
		return "TOO NOISY: two identical paths differ by " + change(f.Ratio.Value)
	default:
		return "noise floor ±" + percent(f.Size)
	}
}

// cellBlock lays out one cell. The columns depend on the kind of load only, so
// that blocks of one kind line up.
func cellBlock(c *analysis.Cell, rec *result.Record, s *analysis.Summary, n *notes) block {
	b := block{name: cellName(c.Cell), caption: metricCaption(c.Cell), floor: floorText(c)}
	base := sanitize.Text(c.Baseline)
	cols := []field{
		{column{"path", true, 0}, func(r *analysis.Row) string { return sanitize.Text(r.Arm.Name) }},
		{column{figureHead(c.Cell.Metric), false, 0}, func(r *analysis.Row) string { return value(c.Cell.Metric, r.Value) }},
		{column{"vs " + base, false, 0}, func(r *analysis.Row) string { return ratioText(r) }},
		{column{setting(s.Level) + " interval", false, 1}, func(r *analysis.Row) string { return interval(r.Ratio) }},
		{column{"verdict", true, 0}, func(r *analysis.Row) string {
			return strings.TrimSpace(verdict(r) + n.marks(rowNotes(r, c, rec, s)))
		}},
	}
	cols = append(cols, trafficColumns(c)...)
	cols = append(cols, cpuColumns(c, base)...)
	cols = append(cols, cpuFields(c)...)
	for _, f := range cols {
		b.columns = append(b.columns, f.column)
	}
	for i := range c.Rows {
		var row []string
		for _, f := range cols {
			row = append(row, f.text(&c.Rows[i]))
		}
		b.rows = append(b.rows, row)
	}
	b.cpu, b.footer = cpuLines(c), trouble(c)
	return b
}

// field is a column and how a row fills it.
type field struct {
	column
	text func(*analysis.Row) string
}

func figureHead(m result.Metric) string {
	switch m {
	case result.OneWay:
		return "RTT/2"
	case result.RoundTrip:
		return "RTT"
	case result.CPUPerPacket, result.CPUPerMessage, result.CPUPerGB:
		return "CPU/" + perWhat(m)
	case result.Transactions, result.Connections:
		return "rate"
	}
	return "received"
}

// trafficColumns are those that tell how the traffic fared.
func trafficColumns(c *analysis.Cell) []field {
	what := "RTT"
	if c.Cell.Metric == result.Connections {
		what = "time" // from connect to close
	}
	switch c.Cell.Metric {
	case result.OneWay, result.RoundTrip, result.Transactions, result.Connections:
		out := []field{
			{column{what + " mean", false, 4}, func(r *analysis.Row) string {
				if r.Latency == nil || r.Latency.MeanRTT == 0 {
					return noFigure
				}
				return duration(r.Latency.MeanRTT)
			}},
			{column{what + " p50", false, 7}, func(r *analysis.Row) string { return percentile(r, 0.5) }},
			{column{what + " p90", false, 8}, func(r *analysis.Row) string { return percentile(r, 0.9) }},
			{column{what + " p99", false, 2}, func(r *analysis.Row) string { return percentile(r, 0.99) }},
			{column{what + " p99.9", false, 6}, func(r *analysis.Row) string { return percentile(r, 0.999) }},
			{column{"lost", false, 2}, func(r *analysis.Row) string {
				if r.Latency == nil {
					return noFigure
				}
				return count(r.Latency.Lost)
			}},
		}
		if c.Cell.Metric == result.RoundTrip {
			out = append(out, field{column{"missed", false, 5}, func(r *analysis.Row) string {
				if r.Latency == nil {
					return noFigure
				}
				return count(r.Latency.Missed)
			}})
		}
		if b := c.Cell.Background; b != nil {
			out = append(out, field{column{"beside", false, 3}, func(r *analysis.Row) string { return backgroundRate(b, r) }})
		}
		return out
	}
	stream := func(f func(*analysis.Stream) string) func(*analysis.Row) string {
		return func(r *analysis.Row) string {
			if r.Stream == nil {
				return noFigure
			}
			return f(r.Stream)
		}
	}
	var out []field
	if c.Cell.Metric.IsCPU() {
		out = []field{
			{column{"cores", false, 1}, func(r *analysis.Row) string {
				if r.CPU == nil {
					return noFigure
				}
				return sig3(r.CPU.Cores)
			}},
			{column{"received", false, 2}, stream(func(t *analysis.Stream) string {
				if c.Cell.Metric == result.CPUPerPacket {
					return rate(t.RecvRate, "msg")
				}
				return bits(t.RecvBits)
			})},
		}
	}
	if c.Cell.Metric == result.Messages {
		out = append(out, field{column{"packets", false, 3}, stream(func(t *analysis.Stream) string { return rate(t.PacketRate, "pkt") })})
	}
	if c.Cell.Transport == "tcp" {
		return append(out, field{column{"retransmitted", false, 5}, stream(func(t *analysis.Stream) string { return count(t.Retransmits) })})
	}
	sent := func(t *analysis.Stream) string { return bits(t.SentBits) }
	if c.Cell.Metric == result.Messages || c.Cell.Metric == result.CPUPerPacket {
		sent = func(t *analysis.Stream) string { return rate(t.SentRate, "msg") }
	}
	return append(out,
		field{column{"sent", false, 4}, stream(sent)},
		field{column{"lost", false, 2}, stream(func(t *analysis.Stream) string { return percent(t.LossShare()) })})
}

// cpuColumns appear when the CPU meter ran.
func cpuColumns(c *analysis.Cell, base string) []field {
	i := slices.IndexFunc(c.Rows, func(r analysis.Row) bool { return r.CPU != nil })
	if i < 0 || c.Cell.Metric.IsCPU() || c.Cell.Background != nil { // it is the figure, or mostly of other traffic
		return nil
	}
	fields := []field{{column{"CPU/" + c.Rows[i].CPU.Unit, false, 2}, func(r *analysis.Row) string { return cost(r.CPU) }}}
	for _, machine := range slices.Sorted(maps.Keys(c.Rows[i].CPU.ByMachine)) {
		fields = append(fields, field{column{"of " + sanitize.Text(machine), false, 3}, func(r *analysis.Row) string { return machineCost(r.CPU, machine) }})
	}
	return append(fields, []field{
		{column{"vs " + base, false, 3}, func(r *analysis.Row) string {
			if r.CPU == nil || r.CPU.Ratio == nil {
				return ""
			}
			if r.Foreign() {
				return noFigure // an emulated CPU's work is not a real one's
			}
			return plusMinus(*r.CPU.Ratio)
		}},
	}...)
}

// machineCost is what a path costs one of two machines, each the end of it.
func machineCost(c *analysis.CPU, machine string) string {
	if c == nil {
		return noFigure
	}
	of := *c
	of.Cost = c.ByMachine[machine]
	return cost(&of)
}

func percentile(r *analysis.Row, q float64) string {
	if r.Latency != nil {
		for _, p := range r.Latency.Percentiles {
			if p.Q == q {
				return duration(p.Value)
			}
		}
	}
	return noFigure
}

func ratioText(r *analysis.Row) string {
	if r.Ratio == nil {
		return ""
	}
	return ratio(r.Ratio.Value)
}

func interval(r *stats.Ratio) string {
	if r == nil || r.Open {
		return ""
	}
	return "[" + ratio(r.Lo) + ", " + ratio(r.Hi) + "]"
}

// plusMinus is a ratio with its interval in short.
func plusMinus(r stats.Ratio) string {
	half, ok := r.HalfWidth()
	if !ok {
		return ratio(r.Value)
	}
	return ratio(r.Value) + " ±" + percent(half)
}

// The words of a stream with a rate, whose figure is CPU time.
const (
	cheaper     = "cheaper"
	costlier    = "costlier"
	rateNotHeld = "rate not held"
)

// differs is the word for a proven difference.
func differs(r *analysis.Row) string { return differenceWord(r.Judged.Verdict, r.Offered != nil) }

// differenceWord is what faster and slower are called, of CPU time or of anything else.
func differenceWord(v stats.Verdict, cpu bool) string {
	switch {
	case !cpu:
		return string(v)
	case v == stats.Faster:
		return cheaper
	}
	return costlier
}

// notHeld tells of a rate that the path, or the sender, did not hold.
func notHeld(r *analysis.Row) bool {
	return r.Offered != nil && !r.Offered.Reached && r.Failed == "" && r.Slices > 0
}

// verdict is the answer of a row in words.
func verdict(r *analysis.Row) string {
	switch {
	case notHeld(r):
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
		return differs(r) + " " + change(r.Ratio.Value)
	}
	return undecidedText(r.Judged)
}

// undecidedText is a judgement that names no difference, in words.
func undecidedText(j *stats.Judgement) string {
	switch {
	case j.Verdict == stats.CannotTell && j.Detectable > 0:
		return "cannot tell < " + percent(j.Detectable)
	case j.Verdict == stats.NotJudged:
		return "not judged"
	}
	return string(j.Verdict)
}

// agreementBlock shows the other tools that ran beside ours.
func agreementBlock(s *analysis.Summary) (block, bool) {
	b := block{name: "agreement", caption: "ours to another tool on the same path, run by run; latency is the mean RTT/2",
		columns: []column{{"load", true, 0}, {"path", true, 0}, {"tool", true, 0}, {"ours", false, 1}, {"tool's", false, 1},
			{"ours/tool", false, 0}, {setting(s.Level) + " interval", false, 0}, {"CPU ours/tool", false, 1}, {"pairs", false, 2}}}
	for _, c := range s.Cells {
		for _, a := range c.Agreement {
			cpu := noFigure
			if a.CPU != nil {
				cpu = plusMinus(*a.CPU)
			}
			b.rows = append(b.rows, []string{cellName(c.Cell), sanitize.Text(a.Arm), sanitize.Text(a.Tool),
				value(c.Cell.Metric, a.Venturi), value(c.Cell.Metric, a.External),
				ratio(a.Ratio.Value), interval(&a.Ratio), cpu, fmt.Sprint(a.Ratio.Rounds)})
		}
	}
	return b, len(b.rows) > 0
}
