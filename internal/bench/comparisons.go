package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verify"
)

// fastCompare is one comparison: which paths, under which load.
type fastCompare struct {
	name     string
	services int
	paths    []string
	noHost   bool // the first path is what the others are compared with
	loads    []string
	flows    []int
}

// A machine has one fast path. Two on the same wire would pass each other's programs,
// and the host network those of both.
var (
	overlayPaths  = []string{"vxlan", "vxlan+fast"}
	routedPaths   = []string{"routed", "routed+fast"}
	fastLatencies = []string{"tcp_lat", "udp_lat"}
	fastLoads     = append(fastLatencies[:2:2], "tcp_bw", "udp_bw")
	plainLoads    = append(fastLoads[:4:4], "quic")
)

var fastCompares = []fastCompare{
	{name: "plain", paths: overlayPaths, loads: plainLoads},
	{name: "plain, routed", paths: routedPaths, loads: plainLoads},
	{name: "plain, macvlan", paths: []string{"macvlan"}, loads: plainLoads},
	{name: "services", services: fastServices, paths: overlayPaths, loads: fastLoads},
	{name: "services, routed", services: fastServices, paths: routedPaths, loads: fastLoads},
	{name: "encapsulations", paths: []string{"vxlan+fast", "geneve+fast", "ipip+fast"}, noHost: true, loads: fastLoads},
	{name: "parallel", paths: overlayPaths, loads: []string{"udp_rr", "tcp_rr"}, flows: []int{32}},
	{name: "connections", paths: overlayPaths, noHost: true, loads: []string{"tcp_crr"}, flows: []int{1, 16}},
	{name: "connections, 1000 Services", services: fastServices, paths: overlayPaths, noHost: true, loads: []string{"tcp_crr"}, flows: []int{1, 16}},
}

// udpLatencyLimit holds for one flow alone, and for each of many in turn.
const udpLatencyLimit = 1.11

// quicLimit is for UDP GSO: devices segment and merge datagrams.
const quicLimit = 0.85

// fastLimits are ratios to the first path of their comparison. That of a prototype
// stands beside each that it had; the kernel's own vxlan had 1.38, 1.53, 0.48 and
// 0.68 there, without rules.
var fastLimits = []struct {
	compare   string
	arm, load string
	flows     int
	cpu       bool // of CPU time for each byte, not of what is measured
	below     bool // the ratio is to be below the limit, not above
	limit     float64
	prototype float64
}{
	{"plain", "vxlan+fast", "tcp_lat", 1, false, true, 1.13, 1.12},
	{"plain", "vxlan+fast", "udp_lat", 1, false, true, udpLatencyLimit, 1.09},
	{"plain", "vxlan+fast", "udp_bw", 1, false, false, 0.82, 0.83},
	{"plain", "vxlan+fast", "tcp_bw", 1, false, false, 0.88, 0.87},
	{"plain", "vxlan+fast", "tcp_bw", 1, true, true, 1.20, 0},
	{"plain", "vxlan+fast", "quic", 1, false, false, quicLimit, 0},
	{"plain, routed", "routed+fast", "tcp_lat", 1, false, true, 1.07, 1.05},
	{"plain, routed", "routed+fast", "udp_bw", 1, false, false, 0.86, 0.87},
	{"plain, routed", "routed+fast", "tcp_bw", 1, false, false, 0.91, 0.92},
	{"plain, routed", "routed+fast", "quic", 1, false, false, quicLimit, 0},
	{"services", "vxlan+fast", "tcp_lat", 1, false, true, 0.95, 0.93},
	{"services", "vxlan+fast", "udp_lat", 1, false, true, 0.93, 0.90},
	{"services", "vxlan+fast", "udp_bw", 1, false, false, 1.15, 1.23},
	{"services", "vxlan+fast", "tcp_bw", 1, false, false, 1.02, 1.05},
	{"encapsulations", "geneve+fast", "tcp_lat", 1, false, true, 1.03, 0},
	{"encapsulations", "geneve+fast", "udp_lat", 1, false, true, 1.03, 0},
	{"encapsulations", "geneve+fast", "udp_bw", 1, false, false, 0.97, 0},
	{"encapsulations", "geneve+fast", "tcp_bw", 1, false, false, 0.97, 0},
	{"encapsulations", "ipip+fast", "tcp_lat", 1, false, true, 1.03, 0},
	{"encapsulations", "ipip+fast", "udp_lat", 1, false, true, 1.03, 0},
	{"encapsulations", "ipip+fast", "udp_bw", 1, false, false, 0.97, 0},
	{"encapsulations", "ipip+fast", "tcp_bw", 1, false, false, 0.97, 0},
	{"parallel", "vxlan+fast", "udp_rr", 32, false, false, 0.75, 0},
	{"connections", "vxlan+fast", "tcp_crr", 1, false, false, 0.95, 0},
	{"connections", "vxlan+fast", "tcp_crr", 16, false, false, 0.95, 0},
	{"connections, 1000 Services", "vxlan+fast", "tcp_crr", 1, false, false, 0.95, 0},
	{"connections, 1000 Services", "vxlan+fast", "tcp_crr", 16, false, false, 0.95, 0},
}

// comparisonSection makes a section of comparisons.
func comparisonSection(names ...string) func(context.Context, io.Writer, compare.Host, time.Duration, uint64) ([]verify.Requirement, error) {
	return func(ctx context.Context, w io.Writer, h compare.Host, budget time.Duration, seed uint64) (limits []verify.Requirement, err error) {
		for _, name := range names {
			for _, c := range fastCompares {
				if c.name != name {
					continue
				}
				s, err := c.measure(ctx, h, budget, seed)
				if err != nil {
					return nil, err
				}
				c.print(w, s)
				limits = append(limits, c.requirements(s)...)
			}
		}
		return limits, nil
	}
}

func (c fastCompare) measure(ctx context.Context, h compare.Host, budget time.Duration, seed uint64) (s *analysis.Summary, err error) {
	q := fastRequest(c.paths, c.services, seed)
	q.Loads, q.Flows, q.Budget, q.NoHost = c.loads, c.flows, budget, c.noHost
	b, err := verify.OpenComparer(ctx, q, h)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return b.Compare(ctx, q)
}

func (c fastCompare) base() string {
	if c.noHost {
		return c.paths[0]
	}
	return "the host network"
}

func (c fastCompare) print(w io.Writer, s *analysis.Summary) {
	fmt.Fprintf(w, "%d Services; ratio to %s in the same rounds, with its 95 %% interval\n\n", c.services, c.base())
	fmt.Fprintf(w, "%-18s %-12s %-24s %-24s %s\n", "load", "path", "ratio", "CPU", "lost")
	for _, cell := range s.Cells {
		for _, row := range cell.Rows {
			if row.Ratio != nil {
				fmt.Fprintf(w, "%-18s %-12s %-24s %-24s %s\n", cell.Cell.Name, row.Arm.Name, interval(row.Ratio), interval(cpuRatio(row)), lostOf(row))
			}
		}
	}
	fmt.Fprintln(w)
}

// lostOf tells how many requests had no reply.
func lostOf(row analysis.Row) string {
	if row.Latency == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d", row.Latency.Lost, row.Latency.Requests)
}

// requirements compares the ratios with the limits of the comparison.
func (c fastCompare) requirements(s *analysis.Summary) (limits []verify.Requirement) {
	for _, l := range fastLimits {
		if l.compare != c.name {
			continue
		}
		what := fmt.Sprintf("%s: %s %s", c.name, l.arm, l.load)
		if l.flows > 1 {
			what += fmt.Sprintf(" x %d", l.flows)
		}
		row, found := verify.RowOf(s, l.arm, l.load, l.flows)
		r := row.Ratio
		if l.cpu {
			what, r = what+", CPU", cpuRatio(row)
		}
		text := fmt.Sprintf("%s: %s of %s, %s", what, interval(r), c.base(), boundText(l.below, l.limit))
		if l.prototype > 0 {
			text += fmt.Sprintf(" (prototype: %.2f)", l.prototype)
		}
		limits = append(limits, ratioLimits(what, text, r, found && meetsLimit(r, l.limit, l.below))...)
	}
	return limits
}

func cpuRatio(row analysis.Row) *stats.Ratio {
	if row.CPU == nil {
		return nil
	}
	return row.CPU.Ratio
}
