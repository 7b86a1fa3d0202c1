// Package csv prints one line for each path and load, in base units.
package csv

import (
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// csvField is a column of the CSV: a name with its unit, and its text. An
// empty field means that there is no figure.
type csvField struct {
	name string
	text func(*analysis.Cell, *analysis.Row) string
}

// csvFields are a promise to scripts: columns are added at the end, never
// renamed or moved.
var csvFields = []csvField{
	{"cell", func(c *analysis.Cell, _ *analysis.Row) string { return c.Cell.Name }},
	{"load", func(c *analysis.Cell, _ *analysis.Row) string { return c.Cell.Load }},
	{"size_bytes", func(c *analysis.Cell, _ *analysis.Row) string { return strconv.Itoa(c.Cell.Size) }},
	{"flows", func(c *analysis.Cell, _ *analysis.Row) string { return strconv.Itoa(c.Cell.Flows) }},
	{"batch", func(c *analysis.Cell, _ *analysis.Row) string { return strconv.Itoa(c.Cell.Batch) }},
	{"metric", func(c *analysis.Cell, _ *analysis.Row) string { return string(c.Cell.Metric) }},
	{"unit", func(c *analysis.Cell, _ *analysis.Row) string { return unitOf(c.Cell.Metric) }},
	{"path", func(_ *analysis.Cell, r *analysis.Row) string { return r.Arm.Name }},
	{"role", func(_ *analysis.Cell, r *analysis.Row) string { return r.Arm.Role }},
	{"value", func(_ *analysis.Cell, r *analysis.Row) string { return number(r.Value) }},
	{"ratio", ofRatio(func(r *stats.Ratio) string { return number(r.Value) })},
	{"ratio_lo", ofRatio(func(r *stats.Ratio) string { return number(r.Lo) })},
	{"ratio_hi", ofRatio(func(r *stats.Ratio) string { return number(r.Hi) })},
	{"p", ofRatio(func(r *stats.Ratio) string { return unit.Plain(r.P) })},
	{"p_holm", func(_ *analysis.Cell, r *analysis.Row) string {
		if r.Judged == nil {
			return ""
		}
		return unit.Plain(r.Adjusted)
	}},
	{"series", ofRatio(func(r *stats.Ratio) string { return strconv.Itoa(r.Series) })},
	{"rounds", ofRatio(func(r *stats.Ratio) string { return strconv.Itoa(r.Rounds) })},
	{"verdict", ofJudged(func(j *stats.Judgement) string { return string(j.Verdict) })},
	{"reason", ofJudged(func(j *stats.Judgement) string { return string(j.Reason) })},
	{"detectable", ofJudged(func(j *stats.Judgement) string { return number(j.Detectable) })},
	{"noise_floor", func(c *analysis.Cell, _ *analysis.Row) string {
		if c.Floor == nil {
			return ""
		}
		return number(c.Floor.Size)
	}},
	{"rtt_p50_ns", quantile(0.5)},
	{"rtt_p90_ns", quantile(0.9)},
	{"rtt_p99_ns", quantile(0.99)},
	{"rtt_p999_ns", quantile(0.999)},
	{"requests", ofLatency(func(l *analysis.Latency) int64 { return l.Requests })},
	{"lost_requests", ofLatency(func(l *analysis.Latency) int64 { return l.Lost })},
	{"late_replies", ofLatency(func(l *analysis.Latency) int64 { return l.Late })},
	{"sent_messages", ofStream(func(t *analysis.Stream) string { return strconv.FormatInt(t.SentMessages, 10) })},
	{"received_messages", ofStream(func(t *analysis.Stream) string { return strconv.FormatInt(t.RecvMessages, 10) })},
	{"lost_messages", ofStream(func(t *analysis.Stream) string { return strconv.FormatInt(t.Lost, 10) })},
	{"retransmits", ofStream(func(t *analysis.Stream) string { return strconv.FormatInt(t.Retransmits, 10) })},
	{"packets_per_s", ofStream(func(t *analysis.Stream) string { return number(t.PacketRate) })},
	{"fragments", func(_ *analysis.Cell, r *analysis.Row) string { return strconv.Itoa(r.Fragments) }},
	{"cpu_per", ofCost(func(c *analysis.CPU) string { return c.Unit })},
	{"cpu_ns", ofCost(func(c *analysis.CPU) string { return number(c.Cost) })},
	{"cpu_ratio", ofCPURatio(func(r *stats.Ratio) string { return number(r.Value) })},
	{"cpu_ratio_lo", ofCPURatio(func(r *stats.Ratio) string { return number(r.Lo) })},
	{"cpu_ratio_hi", ofCPURatio(func(r *stats.Ratio) string { return number(r.Hi) })},
	{"mean_rtt_ns", func(_ *analysis.Cell, r *analysis.Row) string {
		if r.Latency == nil {
			return ""
		}
		return number(r.Latency.MeanRTT)
	}},
	{"failed", func(_ *analysis.Cell, r *analysis.Row) string { return r.Failed }},
	// By class: ns of each cpu_per, as cpu_ns is. The others: how many cores on average.
	{"cpu_user_ns", classNs("user")},
	{"cpu_nice_ns", classNs("nice")},
	{"cpu_system_ns", classNs("system")},
	{"cpu_irq_ns", classNs("irq")},
	{"cpu_softirq_ns", classNs("softirq")},
	{"cpu_guest_ns", classNs("guest")},
	{"cpu_steal_cores", ofCPU(func(c *analysis.CPU) string { return unit.Plain(c.Steal) })},
	{"cpu_cores_busy", ofCPU(func(c *analysis.CPU) string { return number(c.Cores) })},
	{"cpu_by_core", ofCPU(coresField)},
	{"cpu_resolution", ofCPU(func(c *analysis.CPU) string { return c.Resolution })},
	{"emulated", func(_ *analysis.Cell, r *analysis.Row) string { return r.Emulated }},
	// The share of packets that a fast path carried, 0 to 1; empty: it has none.
	{"fast_path_carried", func(_ *analysis.Cell, r *analysis.Row) string {
		if r.FastPath == nil {
			return ""
		}
		return unit.Plain(r.FastPath.Carried)
	}},
	// Of what was offered at a rate: that rate, a second. Of requests on a schedule, how
	// many were sent only when the next one was due, and how late they were sent.
	{"rate_asked", func(c *analysis.Cell, _ *analysis.Row) string { return number(c.Cell.Rate) }},
	{"missed_slots", func(c *analysis.Cell, r *analysis.Row) string {
		if c.Cell.Metric != result.RoundTrip || r.Latency == nil {
			return ""
		}
		return strconv.FormatInt(r.Latency.Missed, 10)
	}},
	{"lateness_p99_ns", func(_ *analysis.Cell, r *analysis.Row) string {
		if r.Latency == nil {
			return ""
		}
		return number(r.Latency.LatenessP99)
	}},
	// Of a stream with a rate: which shares of it were sent and received, 0 to 1.
	{"rate_sent_share", ofOffered(func(o *analysis.Offered) float64 { return o.Sent })},
	{"rate_received_share", ofOffered(func(o *analysis.Offered) float64 { return o.Received })},
	// What ran beside the load, and the rate of it that arrived: bit/s of TCP and of large
	// datagrams, else messages a second.
	{"beside", func(c *analysis.Cell, _ *analysis.Row) string {
		if c.Cell.Background == nil {
			return ""
		}
		return c.Cell.Background.Load
	}},
	{"beside_rate_asked", func(c *analysis.Cell, _ *analysis.Row) string {
		if c.Cell.Background == nil {
			return ""
		}
		return number(c.Cell.Background.Rate)
	}},
	{"beside_rate", func(_ *analysis.Cell, r *analysis.Row) string {
		if r.Background == nil {
			return ""
		}
		return number(r.Background.Rate)
	}},
	// Of requests, how many bytes an answer has where that is another size.
	{"response_bytes", func(c *analysis.Cell, _ *analysis.Row) string {
		if c.Cell.Response == 0 {
			return ""
		}
		return strconv.Itoa(c.Cell.Response)
	}},
	// Of a point of a curve, the part of each path's own maximum beside it, 0 to 1.
	{"beside_share", func(c *analysis.Cell, _ *analysis.Row) string {
		if c.Cell.Background == nil || c.Cell.Background.Share == 0 {
			return ""
		}
		return number(c.Cell.Background.Share)
	}},
	// How much of a core each thread used, the busiest first, as cpu_by_core has the cores.
	{"threads", func(_ *analysis.Cell, r *analysis.Row) string { return threadsField(r.Threads) }},
}

// Write prints a line for each path in each cell, the baseline's copy
// included (its role says so), in base units.
func Write(w io.Writer, _ *result.Record, s *analysis.Summary, _ view.Options) error {
	out := csv.NewWriter(w)
	var line []string
	for _, f := range csvFields {
		line = append(line, f.name)
	}
	if err := out.Write(line); err != nil {
		return err
	}
	for i := range s.Cells {
		c := &s.Cells[i]
		rows := append([]analysis.Row{}, c.Rows...)
		if c.Copy != nil {
			rows = append(rows, *c.Copy)
		}
		for j := range rows {
			line = line[:0]
			for _, f := range csvFields {
				line = append(line, sanitize.CSV(f.text(c, &rows[j])))
			}
			if err := out.Write(line); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// unitOf is the base unit of a metric.
func unitOf(m result.Metric) string {
	switch m {
	case result.OneWay, result.RoundTrip, result.CPUPerPacket, result.CPUPerMessage, result.CPUPerGB:
		return "ns"
	case result.Bandwidth:
		return "bit/s"
	}
	return "1/s"
}

// number leaves out what is 0 for want of a figure; plain prints any number.
func number(v float64) string {
	if v == 0 {
		return ""
	}
	return unit.Plain(v)
}

func ofRatio(f func(*stats.Ratio) string) func(*analysis.Cell, *analysis.Row) string {
	return func(_ *analysis.Cell, r *analysis.Row) string {
		if r.Ratio == nil {
			return ""
		}
		return f(r.Ratio)
	}
}

func ofJudged(f func(*stats.Judgement) string) func(*analysis.Cell, *analysis.Row) string {
	return func(_ *analysis.Cell, r *analysis.Row) string {
		if r.Judged == nil {
			return ""
		}
		return f(r.Judged)
	}
}

func ofLatency(f func(*analysis.Latency) int64) func(*analysis.Cell, *analysis.Row) string {
	return func(_ *analysis.Cell, r *analysis.Row) string {
		if r.Latency == nil {
			return ""
		}
		return strconv.FormatInt(f(r.Latency), 10)
	}
}

func quantile(q float64) func(*analysis.Cell, *analysis.Row) string {
	return func(_ *analysis.Cell, r *analysis.Row) string {
		if r.Latency != nil {
			for _, p := range r.Latency.Percentiles {
				if p.Q == q {
					return number(p.Value)
				}
			}
		}
		return ""
	}
}

func ofStream(f func(*analysis.Stream) string) func(*analysis.Cell, *analysis.Row) string {
	return func(_ *analysis.Cell, r *analysis.Row) string {
		if r.Stream == nil {
			return ""
		}
		return f(r.Stream)
	}
}

func ofOffered(f func(*analysis.Offered) float64) func(*analysis.Cell, *analysis.Row) string {
	return func(_ *analysis.Cell, r *analysis.Row) string {
		if r.Offered == nil {
			return ""
		}
		return unit.Plain(f(r.Offered))
	}
}

func ofCPU(f func(*analysis.CPU) string) func(*analysis.Cell, *analysis.Row) string {
	return func(_ *analysis.Cell, r *analysis.Row) string {
		if r.CPU == nil {
			return ""
		}
		return f(r.CPU)
	}
}

// ofCost is empty of a load beside a stream: most of the time is that stream's.
func ofCost(f func(*analysis.CPU) string) func(*analysis.Cell, *analysis.Row) string {
	return func(c *analysis.Cell, r *analysis.Row) string {
		if c.Cell.Background != nil {
			return ""
		}
		return ofCPU(f)(c, r)
	}
}

func ofCPURatio(f func(*stats.Ratio) string) func(*analysis.Cell, *analysis.Row) string {
	return ofCost(func(c *analysis.CPU) string {
		if c.Ratio == nil {
			return ""
		}
		return f(c.Ratio)
	})
}

// classNs is a field of the CSV: the ns per unit of work in one class.
func classNs(class string) func(*analysis.Cell, *analysis.Row) string {
	return ofCost(func(c *analysis.CPU) string { return number(c.Classes[class]) })
}

// threadsField is a field of the CSV: "ksoftirqd/1=0.9812;udp_bw client=0.7120", shares of a core,
// each behind its machine where these have cores of their own.
func threadsField(threads []analysis.Thread) string {
	var parts []string
	for _, t := range threads {
		name := strings.ReplaceAll(view.ThreadName(t), ";", "_") // a program chooses it
		parts = append(parts, name+"="+strconv.FormatFloat(t.Share, 'f', 4, 64))
	}
	return strings.Join(parts, ";")
}

// coresField is a field of the CSV: "cpu0=0.981;cpu1=0.712", busy shares.
func coresField(c *analysis.CPU) string {
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(c.ByCore), view.ByCoreNumber) {
		parts = append(parts, sanitize.Text(name)+"="+strconv.FormatFloat(c.ByCore[name], 'f', 4, 64))
	}
	return strings.Join(parts, ";")
}
