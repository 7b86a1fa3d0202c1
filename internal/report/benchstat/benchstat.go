// Package benchstat prints a record as Go benchmarks, for golang.org/x/perf/cmd/benchstat.
package benchstat

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// benchUnits are the units in benchstat's format. It takes lower as better
// unless a unit line says otherwise.
var benchUnits = map[result.Metric]string{
	result.OneWay:    "ns/op",
	result.RoundTrip: "ns/op",

	result.CPUPerPacket: "cpu-ns/pkt", result.CPUPerMessage: "cpu-ns/msg", result.CPUPerGB: "cpu-ns/GB",
	result.Transactions: "req/s",
	result.Connections:  "conn/s",
	result.Bandwidth:    "bit/s",
	result.Messages:     "msg/s",
}

// Write prints one line for each series of each path, in the format
// of Go benchmarks: `benchstat -col /path` makes a table of them. benchstat
// knows nothing of rounds, so it compares the series as unpaired samples; its
// p-values are weaker than the verdicts of the other formats.
func Write(w io.Writer, rec *result.Record, s *analysis.Summary, _ view.Options) error {
	out := bufio.NewWriter(w)
	sanitize.Fprintf(out, "venturi: %s\n", oneLine(rec.Header.Venturi))
	if len(rec.Facts) > 0 {
		f := rec.Facts[0]
		sanitize.Fprintf(out, "kernel: %s\ngoarch: %s\ncpu: %s\n", oneLine(f.Kernel), oneLine(f.Arch), oneLine(f.CPUModel))
	}
	if s.Emulated {
		sanitize.Fprintf(out, "emulated: %s\n", analysis.EmulatedMachine)
	}
	if rec.Plan.Wire != "" {
		sanitize.Fprintf(out, "wire: %s\n", oneLine(rec.Plan.Wire))
	}
	for _, unit := range []string{"req/s", "conn/s", "bit/s", "msg/s"} {
		sanitize.Fprintf(out, "Unit %s better=higher\n", unit)
	}
	sanitize.Fprintln(out)
	var foreign bytes.Buffer
	for i := range s.Cells {
		c := &s.Cells[i]
		rows, apart := view.SplitEmulated(c.Rows)
		if c.Copy != nil {
			rows = append(rows, *c.Copy)
		}
		for _, r := range rows {
			benchLines(out, rec, c.Cell, &r)
		}
		for _, r := range apart {
			benchLines(&foreign, rec, c.Cell, &r)
		}
	}
	if foreign.Len() > 0 { // what differs in a key benchstat puts into tables of their own
		sanitize.Fprintf(out, "\nemulated: %s\n\n%s", analysis.EmulatedPath, sanitize.Safe(foreign.String()))
	}
	return out.Flush()
}

// benchLines prints the series of one path in one cell.
func benchLines(out io.Writer, rec *result.Record, c result.Cell, r *analysis.Row) {
	arm := r.Arm.Name
	values, work := map[int][]float64{}, map[int]int64{}
	var order []int
	for i := range rec.Slices {
		s := &rec.Slices[i]
		v, ok := s.Value(c.Metric)
		if s.Cell != c.Name || s.Arm != arm || !ok {
			continue
		}
		if values[s.Series] == nil {
			order = append(order, s.Series)
		}
		values[s.Series] = append(values[s.Series], v)
		if s.Latency != nil {
			work[s.Series] += s.Latency.Replies
		} else {
			work[s.Series] += s.Stream.RateMessages
		}
	}
	slices.Sort(order)
	name := fmt.Sprintf("Benchmark%s/path=%s/size=%d", benchName(c.Load), benchKey(arm), c.Size)
	if c.Flows > 1 {
		name += fmt.Sprintf("/flows=%d", c.Flows)
	}
	if c.Threads > 0 {
		name += fmt.Sprintf("/threads=%d", c.Threads)
	}
	if c.Batch > 1 {
		name += fmt.Sprintf("/batch=%d", c.Batch)
	}
	if c.Response > 0 {
		name += fmt.Sprintf("/response=%d", c.Response)
	}
	if b := c.Background; b != nil {
		name += "/beside=" + benchKey(b.Load)
		if b.Rate > 0 {
			name += "@" + strconv.FormatFloat(b.Rate, 'f', -1, 64)
		}
		if b.Share > 0 {
			name += "@" + strings.TrimSuffix(unit.ExactPercent(b.Share), " %") + "pct"
		}
	}
	if c.Rate > 0 {
		name += "/rate=" + strconv.FormatFloat(c.Rate, 'f', -1, 64)
	}
	if c.Metric.IsCPU() && r.CPU != nil {
		for _, v := range r.CPU.BySeries {
			sanitize.Fprintf(out, "%s 1 %s %s\n", name, unit.Plain(v), benchUnits[c.Metric])
		}
	}
	for _, series := range order {
		sanitize.Fprintf(out, "%s %d %s %s\n", name, max(1, work[series]), unit.Plain(stats.Median(values[series])), benchUnits[c.Metric])
	}
}

// benchName makes tcp_lat into TCPLat.
func benchName(load string) string {
	var out strings.Builder
	for _, part := range strings.FieldsFunc(load, func(r rune) bool { return !isWord(r) }) {
		switch part {
		case "tcp", "udp", "rr":
			out.WriteString(strings.ToUpper(part))
		default:
			out.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return out.String()
}

func isWord(r rune) bool { return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// benchKey keeps a name inside its place between two slashes.
func benchKey(s string) string {
	return strings.Map(func(r rune) rune {
		if isWord(r) || strings.ContainsRune("-_.:+", r) {
			return r
		}
		return '_'
	}, s)
}

// oneLine is a value of a configuration line.
func oneLine(s string) string { return strings.TrimSpace(sanitize.Text(s)) }
