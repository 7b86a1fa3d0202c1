package view

import (
	"maps"
	"slices"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// field is a column and how a row fills it.
type field struct {
	Column
	text func(*analysis.Row) string
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
			{Column{what + " mean", false, 4}, func(r *analysis.Row) string {
				if r.Latency == nil || r.Latency.MeanRTT == 0 {
					return unit.NoFigure
				}
				return unit.Duration(r.Latency.MeanRTT)
			}},
			{Column{what + " p50", false, 7}, func(r *analysis.Row) string { return percentile(r, 0.5) }},
			{Column{what + " p90", false, 8}, func(r *analysis.Row) string { return percentile(r, 0.9) }},
			{Column{what + " p99", false, 2}, func(r *analysis.Row) string { return percentile(r, 0.99) }},
			{Column{what + " p99.9", false, 6}, func(r *analysis.Row) string { return percentile(r, 0.999) }},
			{Column{"lost", false, 2}, func(r *analysis.Row) string {
				if r.Latency == nil {
					return unit.NoFigure
				}
				return unit.Count(r.Latency.Lost)
			}},
		}
		if c.Cell.Metric == result.RoundTrip {
			out = append(out, field{Column{"missed", false, 5}, func(r *analysis.Row) string {
				if r.Latency == nil {
					return unit.NoFigure
				}
				return unit.Count(r.Latency.Missed)
			}})
		}
		if b := c.Cell.Background; b != nil {
			out = append(out, field{Column{"beside", false, 3}, func(r *analysis.Row) string { return backgroundRate(b, r) }})
		}
		return out
	}
	stream := func(f func(*analysis.Stream) string) func(*analysis.Row) string {
		return func(r *analysis.Row) string {
			if r.Stream == nil {
				return unit.NoFigure
			}
			return f(r.Stream)
		}
	}
	var out []field
	if c.Cell.Metric.IsCPU() {
		out = []field{
			{Column{"cores", false, 1}, func(r *analysis.Row) string {
				if r.CPU == nil {
					return unit.NoFigure
				}
				return unit.Sig3(r.CPU.Cores)
			}},
			{Column{"received", false, 2}, stream(func(t *analysis.Stream) string {
				if c.Cell.Metric == result.CPUPerPacket {
					return unit.Rate(t.RecvRate, "msg")
				}
				return unit.Bits(t.RecvBits)
			})},
		}
	}
	if c.Cell.Metric == result.Messages {
		out = append(out, field{Column{"packets", false, 3}, stream(func(t *analysis.Stream) string { return unit.Rate(t.PacketRate, "pkt") })})
	}
	if c.Cell.Transport == "tcp" {
		return append(out, field{Column{"retransmitted", false, 5}, stream(func(t *analysis.Stream) string { return unit.Count(t.Retransmits) })})
	}
	sent := func(t *analysis.Stream) string { return unit.Bits(t.SentBits) }
	if c.Cell.Metric == result.Messages || c.Cell.Metric == result.CPUPerPacket {
		sent = func(t *analysis.Stream) string { return unit.Rate(t.SentRate, "msg") }
	}
	return append(out,
		field{Column{"sent", false, 4}, stream(sent)},
		field{Column{"lost", false, 2}, stream(func(t *analysis.Stream) string { return unit.Percent(t.LossShare()) })})
}

// spreadColumns appear where the record tells what each flow carried.
func spreadColumns(c *analysis.Cell) []field {
	if !slices.ContainsFunc(c.Rows, func(r analysis.Row) bool { return r.Spread != nil }) {
		return nil
	}
	of := func(f func(*analysis.Spread) string) func(*analysis.Row) string {
		return func(r *analysis.Row) string {
			if r.Spread == nil {
				return unit.NoFigure
			}
			return f(r.Spread)
		}
	}
	return []field{
		{Column{"Jain", false, 2}, of(func(s *analysis.Spread) string { return unit.Ratio(s.Jain) })},
		{Column{"lowest flow", false, 5}, of(func(s *analysis.Spread) string { return unit.Percent(s.Lowest) })},
		{Column{"highest", false, 5}, of(func(s *analysis.Spread) string { return unit.Percent(s.Highest) })},
	}
}

// cpuMachines are those whose CPU time paths took: paths may be between different ones.
func cpuMachines(c *analysis.Cell) []string {
	all := map[string]bool{}
	for _, r := range c.Rows {
		if r.CPU != nil {
			for machine := range r.CPU.ByMachine {
				all[machine] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// cpuColumns appear when the CPU meter ran.
func cpuColumns(c *analysis.Cell, base string) []field {
	i := slices.IndexFunc(c.Rows, func(r analysis.Row) bool { return r.CPU != nil })
	if i < 0 || c.Cell.Metric.IsCPU() || c.Cell.Background != nil { // it is the figure, or mostly of other traffic
		return nil
	}
	fields := []field{{Column{"CPU/" + c.Rows[i].CPU.Unit, false, 2}, func(r *analysis.Row) string { return unit.Cost(r.CPU) }}}
	for _, machine := range cpuMachines(c) {
		fields = append(fields, field{Column{"of " + sanitize.Text(machine), false, 3}, func(r *analysis.Row) string { return machineCost(r.CPU, machine) }})
	}
	return append(fields, []field{
		{Column{"vs " + base, false, 3}, func(r *analysis.Row) string {
			if r.CPU == nil || r.CPU.Ratio == nil {
				return ""
			}
			if r.Foreign() {
				return unit.NoFigure // an emulated CPU's work is not a real one's
			}
			return plusMinus(*r.CPU.Ratio)
		}},
	}...)
}

// machineCost is what a path costs one of two machines, each the end of it.
func machineCost(c *analysis.CPU, machine string) string {
	if c == nil {
		return unit.NoFigure
	}
	cost, there := c.ByMachine[machine]
	if !there {
		return unit.NoFigure // the path is between others
	}
	of := *c
	of.Cost = cost
	return unit.Cost(&of)
}

func percentile(r *analysis.Row, q float64) string {
	if r.Latency != nil {
		for _, p := range r.Latency.Percentiles {
			if p.Q == q {
				return unit.Duration(p.Value)
			}
		}
	}
	return unit.NoFigure
}
