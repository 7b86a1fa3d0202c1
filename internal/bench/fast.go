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

// Fast is the check of the fast path: how near it comes to the host network, and
// what that costs elsewhere.
type Fast struct {
	Only   []string      // names of sections; none: all
	Budget time.Duration // of each comparison; 0: as each section has it
	Seed   uint64
}

// DefaultFast is what a claim about the fast path's speed rests on.
func DefaultFast() Fast { return Fast{Seed: 1} }

// leastFast is the smallest budget of a comparison: one that shows no more than
// that it can be made.
const leastFast = 15 * time.Second

// Section is a part of the check that can be run alone.
type Section struct {
	Name    string
	Summary string
	Budget  time.Duration // of each of its comparisons, if none was given; 0: it takes its time
	run     func(ctx context.Context, w io.Writer, h compare.Host, budget time.Duration, seed uint64) ([]verify.Bar, error)
}

// FastSections are all parts, in the order in which they run.
var FastSections = []Section{
	{"plain", "latency, packets and streams on machines without a packet filter", 4 * time.Minute, comparing("plain", "plain, routed", "plain, macvlan")},
	{"services", "the same on machines with the rules of 1000 Services", 4 * time.Minute, comparing("services", "services, routed")},
	{"peers", "what iperf3 and netperf measure through each path, and how much of it is carried", 4 * time.Minute, peers},
	{"parallel", "32 flows of udp_rr and tcp_rr at a time", 3 * time.Minute, comparing("parallel")},
	{"connections", "new connections, with the fast path and without, with Services and without", 3 * time.Minute, comparing("connections", "connections, 1000 Services")},
	{"rewrites", "what it costs to have rules rewritten once a second, with 1000 Services", 8 * time.Minute, rewrites},
	{"flows", "latency of one flow with 1, 1000 and a million in the table, of 10,000 in turn with a million, and what each takes of memory", 6 * time.Minute, tableful},
	{"churn", "a flow beside thousands that come and go in a second, with the fast path and without", 0,
		func(ctx context.Context, w io.Writer, h compare.Host, _ time.Duration, _ uint64) ([]verify.Bar, error) {
			return defaultChurning().check(ctx, w, h)
		}},
	{"lossless", "what is lost when the fast path's daemon is stopped, replaced and killed, 20 times each", 0,
		func(ctx context.Context, w io.Writer, h compare.Host, _ time.Duration, _ uint64) ([]verify.Bar, error) {
			return DefaultLossless().check(ctx, w, h)
		}},
	{"programs", "each program that carries, beside an empty one", 0,
		func(ctx context.Context, w io.Writer, h compare.Host, _ time.Duration, seed uint64) ([]verify.Bar, error) {
			return defaultPrograms(seed).check(ctx, w, h)
		}},
}

// fastServices is how many Services the rules are of, on machines that have some.
const fastServices = 1000

// narrow is how wide an interval may be to mean something: to each side.
const narrow = 0.04

// Check measures, prints the ratios on w, and holds them against the bars.
func (c Fast) Check(ctx context.Context, w io.Writer, h compare.Host) error {
	sections, err := c.sections()
	if err != nil {
		return err
	}
	if c.Budget != 0 && c.Budget < leastFast {
		return verr.New(verr.Usage, fmt.Sprintf("cannot check the fast path with --budget %s", c.Budget),
			"nothing would come of so short a comparison", "give a minute or more; sections have three to eight by default")
	}
	var bars []verify.Bar
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
		bars = append(bars, held...)
		fmt.Fprintln(w)
	}
	return verify.CheckBars(w, "the fast path is not what it should be", bars)
}

func (c Fast) sections() (all []Section, err error) {
	var names []string
	for _, s := range FastSections {
		names = append(names, s.Name)
		if len(c.Only) == 0 || slices.Contains(c.Only, s.Name) {
			all = append(all, s)
		}
	}
	for _, name := range c.Only {
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

// judged is a bar for a ratio, and one that its interval is narrow enough to mean
// something: wherever the better end of an interval decides, a wide one reaches
// everything.
func judged(what, text string, r *stats.Ratio, reached bool) []verify.Bar {
	return []verify.Bar{{Text: text, Holds: reached}, isNarrow(what, r)}
}

func isNarrow(what string, r *stats.Ratio) verify.Bar {
	return verify.Bar{Text: what + ": the interval is within 4 % to each side", Holds: r != nil && !r.Open && (r.Hi-r.Lo)/2 <= narrow*r.Value}
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

// limits says what a figure is to reach.
func limits(below bool, bar float64) string {
	if below {
		return fmt.Sprintf("at most %.2f", bar)
	}
	return fmt.Sprintf("at least %.2f", bar)
}
