// Package rates checks what offers traffic at a rate, as benchmarks with limits.
package rates

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/load/thread"
	"github.com/venturi-net/venturi/internal/verify"
	"github.com/venturi-net/venturi/internal/verr"
)

// RatesBench checks what offers traffic at a rate: schedules, streams, and latency beside a stream
// whose packets one core carries.
type RatesBench struct {
	Sections []string // names of sections; none: all
	Series   int      // sets of fresh sockets of each comparison
	Seed     uint64
}

// Default is what a claim about rates rests on.
func Default() RatesBench { return RatesBench{Series: 6, Seed: 1} }

// Section is a part of the benchmark that can be run alone.
type Section struct {
	Name, Summary string
	run           func(c RatesBench, ctx context.Context, w io.Writer, h compare.Host) ([]verify.Requirement, error)
}

// Sections are all its parts, in the order in which they run.
var Sections = []Section{
	{"schedule", "probe and ping at 1 to 10,000 requests a second: each is sent within 20 us of when it is due, at the 99th percentile", RatesBench.schedules},
	{"held", "streams from 10,000 packets a second to 80 % of the maximum: what is sent and arrives is within 1 % of what was asked for", RatesBench.pacedStreams},
	{"core", "ping, idle and beside streams, through a tunnel, all packets on one core and then spread by ports: streams make it slower on one core, and the full thread or core is named", RatesBench.crowdedCore},
}

// Check measures, prints the figures on w, and compares them with the limits.
func (c RatesBench) Check(ctx context.Context, w io.Writer, h compare.Host) error {
	var limits []verify.Requirement
	for _, name := range c.Sections {
		if !slices.ContainsFunc(Sections, func(s Section) bool { return s.Name == name }) {
			return verr.New(verr.Usage, fmt.Sprintf("cannot check %q alone", name), "there is no such section", "choose from schedule, held, core")
		}
	}
	for _, s := range Sections {
		if len(c.Sections) > 0 && !slices.Contains(c.Sections, s.Name) {
			continue
		}
		fmt.Fprintf(w, "%s: %s\n\n", s.Name, s.Summary)
		held, err := s.run(c, ctx, w, h)
		if err != nil {
			return err
		}
		limits = append(limits, held...)
		fmt.Fprintln(w)
	}
	return verify.CheckRequirements(w, "a rate misses its limits", limits)
}

// request is what all comparisons have in common.
func (c RatesBench) request(paths ...string) compare.Request {
	return compare.Request{Paths: paths, NoCopy: true, Series: c.Series, Rounds: 4, Seed: c.Seed, Wait: true, Command: []string{"venturi-bench", "rates"}}
}

// measure makes a comparison, percentiles included.
func measure(ctx context.Context, q compare.Request, h compare.Host) (s *analysis.Summary, err error) {
	b, err := verify.OpenComparer(ctx, q, h)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	rec, err := b.Record(ctx, q)
	if err != nil {
		return nil, err
	}
	return analysis.Analyze(rec, analysis.Options{})
}

func (c RatesBench) schedules(ctx context.Context, w io.Writer, h compare.Host) (limits []verify.Requirement, err error) {
	q := c.request("host")
	fmt.Fprintf(w, "%-22s %12s\n", "a thread that waits", "late, p99")
	for _, rate := range []float64{1, 10, 100, 1000, 10_000} {
		bare, err := thread.TimerLateness(rate, max(5, int(rate))) // for a second, or five moments
		if err != nil {
			return nil, fmt.Errorf("wait for a timer: %w", err)
		}
		fmt.Fprintf(w, "%-22s %9.1f us\n", fmt.Sprintf("%v a second", rate), float64(bare.Nanoseconds())/1000)
		for _, l := range []string{"probe", "ping"} {
			q.Cells = append(q.Cells, compare.CellSpec{Load: l, Rate: rate})
		}
	}
	fmt.Fprintln(w)
	s, err := measure(ctx, q, h)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "%-22s %-10s %12s %10s\n", "load", "path", "late, p99", "missed")
	for _, cell := range s.Cells {
		for _, row := range cell.Rows {
			late, missed := math.Inf(1), int64(-1)
			if row.Latency != nil {
				late, missed = row.Latency.LatenessP99, row.Latency.Missed
			}
			fmt.Fprintf(w, "%-22s %-10s %9.1f us %10d\n", cell.Cell.Name, row.Arm.Name, late/1000, missed)
			limits = append(limits, verify.Requirement{Text: fmt.Sprintf("%s: sent within 20 us of when due at p99 (%.1f us)", cell.Cell.Name, late/1000),
				Holds: late <= analysis.LatenessKept})
		}
	}
	return limits, nil
}

// heldShares are the rates of the streams, of the maximum.
var heldShares = []float64{0.2, 0.4, 0.6, 0.8}

// leastHeldRate is the lowest rate that must be held, datagrams per second.
const leastHeldRate = 10_000

func (c RatesBench) pacedStreams(ctx context.Context, w io.Writer, h compare.Host) (limits []verify.Requirement, err error) {
	loads := []string{"udp_bw", "tcp_bw"}
	q := c.request("host")
	q.Loads = loads
	most, err := measure(ctx, q, h)
	if err != nil {
		return nil, err
	}
	q.Loads, q.Cells = nil, []compare.CellSpec{{Load: loads[0], Rate: leastHeldRate}}
	for _, l := range loads {
		row, found := verify.RowOf(most, "host", l, 1)
		if !found || row.Value == 0 {
			return nil, fmt.Errorf("the maximum of %s could not be measured", l)
		}
		for _, share := range heldShares {
			q.Cells = append(q.Cells, compare.CellSpec{Load: l, Rate: math.Round(share * row.Value)})
		}
	}
	s, err := measure(ctx, q, h)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "%-36s %10s %10s\n", "load", "sent", "arrived")
	for _, cell := range s.Cells {
		for _, row := range cell.Rows {
			var o analysis.Offered
			if row.Offered != nil {
				o = *row.Offered
			}
			fmt.Fprintf(w, "%-36s %9.2f%% %9.2f%%\n", cell.Cell.Name, 100*o.Sent, 100*o.Received)
			within := func(share float64) bool { return math.Abs(share-1) <= 0.01 }
			limits = append(limits, verify.Requirement{Text: fmt.Sprintf("%s: sent (%.2f %%) and arrived (%.2f %%) within 1 %%", cell.Cell.Name, 100*o.Sent, 100*o.Received),
				Holds: within(o.Sent) && within(o.Received)})
		}
	}
	return limits, nil
}
