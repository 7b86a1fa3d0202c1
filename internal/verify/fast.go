package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verr"
)

// Fast is the check of the fast path: how near it comes to the host network, on
// machines without packet filter and on some with kube-proxy's rules.
type Fast struct {
	Budget time.Duration // of each of the two comparisons
	Seed   uint64
}

// DefaultFast is what a claim about the fast path's speed rests on.
func DefaultFast() Fast { return Fast{Budget: 6 * time.Minute, Seed: 1} }

// fastServices is how many Services the rules are of, on machines that have some.
const fastServices = 1000

// narrow is how wide an interval may be to mean something: to each side.
const narrow = 0.04

// fastBars are ratios to the host network. That of a prototype stands beside each;
// the kernel's own vxlan had 1.38, 1.53, 0.48 and 0.68 there, without rules.
var fastBars = []struct {
	services  int
	arm, load string
	cpu       bool // of CPU time for each byte, not of what is measured
	below     bool // the ratio is to be below the bar, not above
	bar       float64
	prototype float64
}{
	{0, "vxlan+fast", "tcp_lat", false, true, 1.13, 1.12},
	{0, "vxlan+fast", "udp_lat", false, true, 1.11, 1.09},
	{0, "vxlan+fast", "udp_bw", false, false, 0.82, 0.83},
	{0, "vxlan+fast", "tcp_bw", false, false, 0.88, 0.87},
	{0, "vxlan+fast", "tcp_bw", true, true, 1.20, 0},
	{0, "routed+fast", "tcp_lat", false, true, 1.07, 1.05},
	{0, "routed+fast", "udp_bw", false, false, 0.86, 0.87},
	{0, "routed+fast", "tcp_bw", false, false, 0.91, 0.92},
	{fastServices, "vxlan+fast", "tcp_lat", false, true, 0.95, 0.93},
	{fastServices, "vxlan+fast", "udp_lat", false, true, 0.93, 0.90},
	{fastServices, "vxlan+fast", "udp_bw", false, false, 1.15, 1.23},
	{fastServices, "vxlan+fast", "tcp_bw", false, false, 1.02, 1.05},
}

// Check measures, prints the ratios on w, and holds them against the bars.
func (c Fast) Check(ctx context.Context, w io.Writer, h compare.Host) error {
	if c.Budget < time.Minute {
		return verr.New(verr.Usage, fmt.Sprintf("cannot check the fast path with --budget %s", c.Budget),
			"no interval would be narrow enough to judge by", "give a minute or more; six are the default")
	}
	var bars []bar
	for _, services := range []int{0, fastServices} {
		s, err := c.measure(ctx, h, services)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%d Services; ratio to the host network in the same rounds, with its 95 %% interval\n\n", services)
		fmt.Fprintf(w, "%-10s %-12s %-24s %s\n", "load", "path", "ratio", "CPU")
		for _, cell := range s.Cells {
			for _, row := range cell.Rows {
				if row.Ratio != nil {
					fmt.Fprintf(w, "%-10s %-12s %-24s %s\n", cell.Cell.Load, row.Arm.Name, interval(row.Ratio), interval(cpuRatio(row)))
				}
			}
		}
		fmt.Fprintln(w)
		for _, b := range fastBars {
			if b.services != services {
				continue
			}
			r, what := ratioOf(s, b.arm, b.load, b.cpu), fmt.Sprintf("%d Services: %s %s", services, b.arm, b.load)
			word := "at least"
			if b.below {
				word = "at most"
			}
			if b.cpu {
				what += ", CPU"
			}
			what = fmt.Sprintf("%s: %s, %s %.2f", what, interval(r), word, b.bar)
			if b.prototype > 0 {
				what += fmt.Sprintf(" (prototype: %.2f)", b.prototype)
			}
			bars = append(bars, bar{what, reaches(r, b.bar, b.below)})
			if r != nil && !b.cpu {
				bars = append(bars, bar{fmt.Sprintf("%d Services: %s %s: the interval is within 4 %% to each side", services, b.arm, b.load),
					(r.Hi-r.Lo)/2 <= narrow*r.Value})
			}
		}
	}
	programs, err := defaultPrograms(c.Seed).check(ctx, w, h)
	if err != nil {
		return err
	}
	bars = append(bars, programs...)
	return conclude(w, "the fast path is not as fast as it should be", bars)
}

func (c Fast) measure(ctx context.Context, h compare.Host, services int) (s *analysis.Summary, err error) {
	q := compare.Request{
		Paths: []string{"vxlan", "vxlan+fast", "routed", "routed+fast"}, Loads: []string{"tcp_lat", "udp_lat", "tcp_bw", "udp_bw"},
		Budget: c.Budget, Services: services, Seed: c.Seed, Command: []string{"venturi", "verify", "fast"}, Wait: true,
	}
	b, err := open(ctx, q, h)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	return b.compare(ctx, q)
}

// ratioOf finds a ratio; nil: there is none.
func ratioOf(s *analysis.Summary, arm, load string, cpu bool) *stats.Ratio {
	for _, cell := range s.Cells {
		for _, row := range cell.Rows {
			switch {
			case cell.Cell.Load != load || row.Arm.Name != arm:
			case cpu:
				return cpuRatio(row)
			default:
				return row.Ratio
			}
		}
	}
	return nil
}

func cpuRatio(row analysis.Row) *stats.Ratio {
	if row.CPU == nil {
		return nil
	}
	return row.CPU.Ratio
}

// reaches: the better end of the interval does.
func reaches(r *stats.Ratio, bar float64, below bool) bool {
	switch {
	case r == nil || r.Open:
		return false
	case below:
		return r.Lo <= bar
	}
	return r.Hi >= bar
}

func interval(r *stats.Ratio) string {
	switch {
	case r == nil:
		return "-"
	case r.Open:
		return fmt.Sprintf("%.3f", r.Value)
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", r.Value, r.Lo, r.Hi)
}
