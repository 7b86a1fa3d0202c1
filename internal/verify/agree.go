package verify

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/tool"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Agree compares our loads with the real tools: on the host path of the lab, on the same
// cores, with the same socket buffers and one message per system call, run by run in
// random order.
type Agree struct {
	Pairs int           // runs of each, a load
	Slice time.Duration // length of a run, whole seconds
	Seed  uint64
	Tools []string // those alone; empty: all
	Loads []string // those alone; empty: all
}

// DefaultAgree is what a claim of agreement rests on.
func DefaultAgree() Agree { return Agree{Pairs: 30, Slice: 2 * time.Second, Seed: 1} }

// Limits of the check: the median ratio to the tool, and what the better end of
// the interval must reach in rate and in CPU time per byte or packet.
const (
	agreeLow, agreeHigh = 0.95, 1.05
	reachRate           = 0.97
	reachCPU            = 1.05
)

// toolRun is a tool and the loads that it runs in turn with.
type toolRun struct {
	tool  string
	loads []string
	sizes string
}

// agreeTools are the loads that run in turn with each tool. A datagram of iperf3 has a
// header of 16 bytes, so iperf3 cannot send 1 byte.
var agreeTools = []toolRun{
	{"qperf", []string{"tcp_lat", "udp_lat", "tcp_bw", "udp_bw"}, ""},
	{"iperf3", []string{"tcp_bw"}, ""},
	{"iperf3", []string{"udp_bw"}, "16"},
	{"ping", []string{"ping"}, ""},
	{"netperf", []string{"tcp_lat", "udp_lat", "tcp_bw"}, ""},
	{"sockperf", []string{"tcp_lat", "udp_lat"}, "14"}, // its header
}

// checkNames refuses names that no entry of agreeTools has.
func (c Agree) checkNames() error {
	var tools, loads []string
	for _, run := range agreeTools {
		tools, loads = append(tools, run.tool), append(loads, run.loads...)
	}
	for _, given := range []struct {
		flag         string
		names, known []string
	}{{"--with", c.Tools, tools}, {"--load", c.Loads, loads}} {
		for _, name := range given.names {
			if !slices.Contains(given.known, name) {
				slices.Sort(given.known)
				return verr.New(verr.Usage, fmt.Sprintf("cannot check %s %s", given.flag, name), "this check knows no such name",
					"choose from "+strings.Join(slices.Compact(given.known), ", "))
			}
		}
	}
	return nil
}

// runs are the entries of agreeTools that were asked for.
func (c Agree) runs() (runs []toolRun, err error) {
	if err := c.checkNames(); err != nil {
		return nil, err
	}
	for _, run := range agreeTools {
		loads := run.loads
		if len(c.Loads) > 0 {
			loads = slices.DeleteFunc(slices.Clone(loads), func(l string) bool { return !slices.Contains(c.Loads, l) })
		}
		if len(loads) > 0 && (len(c.Tools) == 0 || slices.Contains(c.Tools, run.tool)) {
			runs = append(runs, toolRun{run.tool, loads, run.sizes})
		}
	}
	if len(runs) == 0 {
		return nil, verr.New(verr.Usage, fmt.Sprintf("cannot check --load %s with %s", strings.Join(c.Loads, ","), cmp.Or(strings.Join(c.Tools, ","), "any tool")),
			"none of these tools runs such a load", "leave out --load or --with")
	}
	return runs, nil
}

// optionalTools are those that few distributions have; they are left out where they are
// missing, unless they are asked for.
var optionalTools = []string{"netperf", "sockperf"}

// absentTools are those that are left out. Error: one of them was asked for, or no other is there.
func (c Agree) absentTools(runs []toolRun) (left map[string]bool, err error) {
	left = map[string]bool{}
	for _, run := range runs {
		t, unknown := tool.Find(run.tool)
		if unknown != nil || !slices.Contains(optionalTools, run.tool) {
			continue
		}
		if why := t.Installed(); why != nil {
			left[run.tool], err = true, why
		}
	}
	isThere := func(run toolRun) bool { return !left[run.tool] }
	wanted := func(name string) bool { return left[name] }
	if !slices.ContainsFunc(runs, isThere) || slices.ContainsFunc(c.Tools, wanted) {
		return nil, err
	}
	return left, nil
}

// Check runs the pairs and holds the ratios against the limits.
func (c Agree) Check(ctx context.Context, w io.Writer, h compare.Host) (err error) {
	if c.Pairs < 1 || c.Pairs > 1000 || c.Slice < tool.MinDuration || c.Slice%time.Second != 0 {
		return verr.New(verr.Usage, fmt.Sprintf("cannot check with --pairs %d --slice %s", c.Pairs, c.Slice),
			"there must be 1 to 1000 pairs of runs, each of whole seconds and at least 2s", "leave both out for the default: 30 pairs of 2s")
	}
	runs, err := c.runs()
	if err != nil {
		return err
	}
	absent, err := c.absentTools(runs)
	if err != nil {
		return err
	}
	base := compare.Request{Paths: []string{"host"}, Command: []string{"venturi", "verify", "agree"}, Wait: true}
	b, err := OpenComparer(ctx, base, h)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, b.Close()) }()
	fmt.Fprintf(w, "%d pairs of runs of %s each; ratio of ours to the tool's, median with its interval\n\n", c.Pairs, c.Slice)
	fmt.Fprintf(w, "%-14s %-7s %12s %12s  %-26s %s\n", "load", "tool", "ours", "tool's", "ratio", "CPU per unit")
	var limits []Requirement
	for i, run := range runs {
		if absent[run.tool] {
			fmt.Fprintf(w, "%-14s %-7s is not installed and is left out\n", strings.Join(run.loads, ","), run.tool)
			continue
		}
		q := base
		q.BesideTools, q.Loads, q.Sizes = []string{run.tool}, run.loads, run.sizes
		q.Series, q.Slice, q.Seed = c.Pairs, c.Slice, c.Seed+uint64(i)
		s, err := b.Compare(ctx, q)
		if err != nil {
			return err
		}
		for _, cell := range s.Cells {
			for _, a := range cell.Agreement {
				print(w, cell.Cell, a)
				limits = append(limits, agreementLimits(cell.Cell, a)...)
			}
		}
	}
	if len(c.Loads) == 0 {
		if err := c.batched(ctx, w, b, base); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	return CheckRequirements(w, "Venturi's figures do not agree with those of the real tools", limits)
}

// batched prints what many datagrams a system call give, which neither tool can.
func (c Agree) batched(ctx context.Context, w io.Writer, b *Comparer, q compare.Request) error {
	q.Loads, q.Batch, q.Seed, q.NoCopy = []string{"udp_bw"}, 32, c.Seed, true
	s, err := b.Compare(ctx, q)
	if err != nil {
		return err
	}
	for _, cell := range s.Cells {
		fmt.Fprintf(w, "%-14s %-7s %12s  32 datagrams per system call; not compared\n", cell.Cell.Name, "-", FormatFigure(cell.Cell, cell.Rows[0].Value))
	}
	return nil
}

func print(w io.Writer, c result.Cell, a analysis.Agreement) {
	cpu := "-"
	if a.CPU != nil {
		cpu = fmt.Sprintf("%.3f [%.3f, %.3f]", a.CPU.Value, a.CPU.Lo, a.CPU.Hi)
	}
	fmt.Fprintf(w, "%-14s %-7s %12s %12s  %-26s %s\n", c.Name, a.Tool, FormatFigure(c, a.Venturi), FormatFigure(c, a.External),
		fmt.Sprintf("%.3f [%.3f, %.3f]", a.Ratio.Value, a.Ratio.Lo, a.Ratio.Hi), cpu)
}

func FormatFigure(c result.Cell, v float64) string {
	switch c.Metric {
	case result.OneWay, result.RoundTrip:
		return fmt.Sprintf("%.2f us", v/1e3)
	case result.Bandwidth:
		return fmt.Sprintf("%.2f Gb/s", v/1e9)
	}
	return fmt.Sprintf("%.1f k/s", v/1e3)
}

// agreementLimits makes the limits of one load and one tool.
func agreementLimits(c result.Cell, a analysis.Agreement) []Requirement {
	name := c.Name + " beside " + a.Tool
	var limits []Requirement
	// iperf3 is held to for the TCP rate alone: it spends more on a datagram.
	if a.Tool != "iperf3" || c.Transport == "tcp" {
		limits = append(limits, Requirement{Text: fmt.Sprintf("%s: ratio %.3f is within %.2f..%.2f", name, a.Ratio.Value, agreeLow, agreeHigh),
			Holds: a.Ratio.Value >= agreeLow && a.Ratio.Value <= agreeHigh})
	}
	if !slices.Contains([]result.Metric{result.Bandwidth, result.Messages}, c.Metric) {
		return limits
	}
	limits = append(limits, Requirement{Text: fmt.Sprintf("%s: rate reaches %.2f (interval to %.3f)", name, reachRate, a.Ratio.Hi), Holds: a.Ratio.Hi >= reachRate})
	cpu := math.Inf(1)
	if a.CPU != nil {
		cpu = a.CPU.Lo
	}
	return append(limits, Requirement{Text: fmt.Sprintf("%s: CPU per unit reaches %.2f (interval from %.3f)", name, reachCPU, cpu), Holds: cpu <= reachCPU})
}
