package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verify"
	"github.com/venturi-net/venturi/internal/verr"
)

// FastPathBench measures how near the fast path comes to the host network, and what it costs
// elsewhere.
type FastPathBench struct {
	Sections []string      // names of sections; none: all
	Budget   time.Duration // of each comparison; 0: as each section has it
	Seed     uint64
}

// DefaultFastPath is what a claim about the fast path's speed rests on.
func DefaultFastPath() FastPathBench { return FastPathBench{Seed: 1} }

// minBudget is the smallest budget of a comparison. It shows only that the comparison
// works.
const minBudget = 15 * time.Second

// Section is a part of the check that can be run alone.
type Section struct {
	Name    string
	Summary string
	Budget  time.Duration // of each of its comparisons, if none was given; 0: it takes its time
	run     func(ctx context.Context, w io.Writer, h compare.Host, budget time.Duration, seed uint64) ([]verify.Requirement, error)
}

// Sections are all parts of the benchmark, in the order in which they run.
var Sections = []Section{
	{"plain", "latency, packets and streams on machines without a packet filter", 4 * time.Minute, comparisonSection("plain", "plain, routed", "plain, macvlan")},
	{"services", "the same on machines with the rules of 1000 Services", 4 * time.Minute, comparisonSection("services", "services, routed")},
	{"peers", "what iperf3 and netperf measure through each path, and how much of it is carried", 4 * time.Minute, peers},
	{"clusterip", "latency by the address of a Service and by that of its pod, with connection tracking", 2 * time.Minute, podSection("clusterip")},
	{"siblings", "latency and streams between pods of one host, with the fast path and without", 3 * time.Minute, podSection("siblings")},
	{"ipv6", "latency and streams of IPv6 beside IPv4, on the host network and through routed+fast", 3 * time.Minute, podSection("ipv6")},
	{"encapsulations", "latency, packets and streams of other encapsulations beside VXLAN", 4 * time.Minute, encapsulations},
	{"parallel", "32 flows of udp_rr and tcp_rr at a time", 3 * time.Minute, comparisonSection("parallel")},
	{"connections", "new connections, with the fast path and without, with Services and without", 3 * time.Minute, comparisonSection("connections", "connections, 1000 Services")},
	{"rewrites", "what it costs to have rules rewritten once a second, with 1000 Services", 8 * time.Minute, rewrites},
	{"flows", "latency of one flow with 1, 1000 and a million in the table, of 10,000 in turn with a million, what each takes of memory, and what a flood of new flows takes from a stream", 6 * time.Minute, manySizes},
	{"churn", "a flow beside thousands that come and go in a second, with the fast path and without", 0,
		func(ctx context.Context, w io.Writer, h compare.Host, _ time.Duration, _ uint64) ([]verify.Requirement, error) {
			return defaultChurn().check(ctx, w, h)
		}},
	{"lossless", "what is lost when the fast path's daemon is stopped, replaced and killed, 20 times each", 0,
		func(ctx context.Context, w io.Writer, h compare.Host, _ time.Duration, _ uint64) ([]verify.Requirement, error) {
			return DefaultLossless().check(ctx, w, h)
		}},
	{"pods", "how soon the daemon carries 1, 250 and 1,000 pods, and its CPU time and memory while idle; the median of three starts", 0,
		func(ctx context.Context, w io.Writer, h compare.Host, _ time.Duration, _ uint64) ([]verify.Requirement, error) {
			return defaultPods().check(ctx, w, h)
		}},
	{"programs", "each program that carries, beside an empty one", 0,
		func(ctx context.Context, w io.Writer, h compare.Host, _ time.Duration, seed uint64) ([]verify.Requirement, error) {
			return defaultPrograms(seed).check(ctx, w, h)
		}},
}

// fastServices is how many Services the rules are of, on machines that have some.
const fastServices = 1000

// narrow is how wide an interval may be to mean something: to each side.
const narrow = 0.04

// Check measures, prints the ratios on w, and holds them against the limits.
func (c FastPathBench) Check(ctx context.Context, w io.Writer, h compare.Host) error {
	sections, err := c.sections()
	if err != nil {
		return err
	}
	if c.Budget != 0 && c.Budget < minBudget {
		return verr.New(verr.Usage, fmt.Sprintf("cannot check the fast path with --budget %s", c.Budget),
			"nothing would come of so short a comparison", "give a minute or more; sections have three to eight by default")
	}
	var limits []verify.Requirement
	for _, s := range sections {
		budget := s.Budget
		if c.Budget != 0 {
			budget = c.Budget
		}
		fmt.Fprintf(w, "%s: %s\n\n", s.Name, s.Summary)
		held, err := s.run(ctx, w, h, budget, c.Seed)
		if err != nil {
			return err
		}
		limits = append(limits, held...)
		fmt.Fprintln(w)
	}
	return verify.CheckRequirements(w, "the fast path misses its limits", limits)
}

func (c FastPathBench) sections() (all []Section, err error) {
	var names []string
	for _, s := range Sections {
		names = append(names, s.Name)
		if len(c.Sections) == 0 || slices.Contains(c.Sections, s.Name) {
			all = append(all, s)
		}
	}
	for _, name := range c.Sections {
		if !slices.Contains(names, name) {
			return nil, verr.New(verr.Usage, fmt.Sprintf("cannot check %q alone", name), "there is no such section", "choose from "+strings.Join(names, ", "))
		}
	}
	return all, nil
}

// fastRequest is what all comparisons have in common.
func fastRequest(paths []string, services int, seed uint64) compare.Request {
	return compare.Request{Paths: paths, Services: services, Seed: seed, Command: []string{"venturi-bench", "fast"}, Wait: true}
}

// ratioLimits are two limits for a ratio: that it reaches its bound, and that its interval is
// narrow enough to mean something. The better end of the interval decides on the bound,
// so a wide interval would reach every bound.
func ratioLimits(what, text string, r *stats.Ratio, reached bool) []verify.Requirement {
	return []verify.Requirement{{Text: text, Holds: reached}, narrowLimit(what, r)}
}

func narrowLimit(what string, r *stats.Ratio) verify.Requirement {
	return verify.Requirement{Text: what + ": the interval is within 4 % to each side", Holds: r != nil && !r.Open && (r.Hi-r.Lo)/2 <= narrow*r.Value}
}

// meetsLimit tells whether the better end of the interval meets the limit.
func meetsLimit(r *stats.Ratio, limit float64, below bool) bool {
	switch {
	case r == nil || r.Open:
		return false
	case below:
		return r.Lo <= limit
	}
	return r.Hi >= limit
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

// boundText says which bound a figure must meet.
func boundText(below bool, limit float64) string {
	if below {
		return fmt.Sprintf("at most %.2f", limit)
	}
	return fmt.Sprintf("at least %.2f", limit)
}
