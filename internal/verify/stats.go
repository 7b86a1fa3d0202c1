package verify

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Stats checks the verdicts: it makes many comparisons of two identical arms, and many in
// which the responder of one arm is busy for a known share of the round trip. They come
// in random order, so that drift of the machine affects all kinds.
type Stats struct {
	Sections  []string      // names of [StatsSections]; none: all
	Identical int           // comparisons of identical arms
	Slower    int           // comparisons with a slower arm
	Effect    float64       // how much slower: 0.03
	Margin    float64       // of the verdicts
	Budget    time.Duration // of one comparison
	Slice     time.Duration // shorter ones make better use of a budget
	Seed      uint64

	Decisions []Decision
	Runs      int // until decided, for each of Decisions
	Replays   int // of recorded series, looked at after each

	Pairs      int           // of records, with a difference and without
	PairEffect float64       // the difference
	PairBudget time.Duration // of a record that only pairs need
}

// Decision is how soon a run that stops when it is decided shall find a difference: in the
// median over many runs.
type Decision struct {
	Effect float64
	Limit  time.Duration
}

// DefaultStats is what a claim about the verdicts rests on.
func DefaultStats() Stats {
	return Stats{Identical: 100, Slower: 40, Effect: 0.03, Margin: 0.01,
		Budget: 10 * time.Second, Slice: 10 * time.Millisecond, Seed: 1,
		Decisions: []Decision{{0.10, 3 * time.Second}, {0.05, 8 * time.Second}, {0.03, 20 * time.Second}}, Runs: 9, Replays: 1000,
		Pairs: 20, PairEffect: 0.05, PairBudget: 5 * time.Second}
}

// Limits of the section verdicts, as shares: false alarms at most, and slower arms seen at least.
const (
	maxFalseAlarms = 0.08
	minDetected    = 0.90
)

// testedArm is the arm under test: the host path for the third time, after the baseline
// and its copy.
const testedArm = "host.2"

// StatsSection is a part of the check that can be run alone.
type StatsSection struct {
	Name, Summary string
	// needs are the comparisons that it evaluates. Sections share those of a name.
	needs func(Stats) []comparisons
	check func(Stats, io.Writer, outcomes) ([]Requirement, error)
}

// StatsSections are all parts.
var StatsSections = []StatsSection{
	{"verdicts", "runs of a fixed length: at most 8 % false alarms, at least 90 % of slower paths detected", Stats.verdictNeeds, Stats.checkVerdicts},
	{"anytime", "runs checked after each series, live and replayed: at most 5 % ever decide wrongly", Stats.anytimeNeeds, Stats.checkAnytime},
	{"decided", "runs with --until-decided: median time to find 10, 5 and 3 % slower at most 3, 8 and 20 s", Stats.decisionNeeds, Stats.checkDecisions},
	{"pairs", "two records of this host: at least 95 % of equal ones the same, 90 % of slower ones found", Stats.pairNeeds, Stats.checkPairs},
}

// comparisons are of one kind.
type comparisons struct {
	name         string
	count        int
	flag         string  // that says how many
	effect       float64 // by how much the arm under test is slower; 0: identical
	budget       time.Duration
	untilDecided bool
	// perLoad is how many follow each other with the same load, before the next has its turn.
	perLoad int
}

// outcomes are those of comparisons, by name.
type outcomes map[string][]outcome

// outcome is what one comparison came to.
type outcome struct {
	rec  *result.Record // its slices, without histograms
	row  analysis.Row   // of the arm under test
	took time.Duration
}

const identicalName = "identical"

// identical are comparisons of identical arms. Two of a load make a pair.
func (c Stats) identical(count int, flag string) comparisons {
	return comparisons{name: identicalName, count: count, flag: flag, budget: c.Budget, perLoad: 2}
}

// slowerName is what comparisons with an arm that is so much slower are called.
func slowerName(effect float64) string { return fmt.Sprintf("%.2g %% slower", 100*effect) }

func (c Stats) verdictNeeds() []comparisons {
	return []comparisons{c.identical(c.Identical, "--same"), {name: slowerName(c.Effect), count: c.Slower, flag: "--slower", effect: c.Effect, budget: c.Budget, perLoad: 1}}
}

// selection is the sections to run.
func (c Stats) selection() ([]StatsSection, error) {
	var names []string
	for _, s := range StatsSections {
		names = append(names, s.Name)
	}
	for _, name := range c.Sections {
		if !slices.Contains(names, name) {
			return nil, verr.New(verr.Usage, fmt.Sprintf("cannot check section %q", name), "there is no such section", "choose from "+strings.Join(names, ", "))
		}
	}
	if len(c.Sections) == 0 {
		return StatsSections, nil
	}
	return slices.DeleteFunc(slices.Clone(StatsSections), func(s StatsSection) bool { return !slices.Contains(c.Sections, s.Name) }), nil
}

// needs are the comparisons of all sections, each kind once.
func (c Stats) needs(sections []StatsSection) ([]comparisons, error) {
	var all []comparisons
	for _, s := range sections {
		if s.Name == "anytime" && c.Replays < 1 {
			return nil, nothingToCount(s.Name, "--replays", c.Replays)
		}
		for _, n := range s.needs(c) {
			if n.count < 1 {
				return nil, nothingToCount(s.Name, n.flag, n.count)
			}
			if at := slices.IndexFunc(all, func(o comparisons) bool { return o.name == n.name }); at >= 0 {
				all[at].count = max(all[at].count, n.count)
			} else {
				all = append(all, n)
			}
		}
	}
	if c.Effect <= 0 || c.Effect > 10 {
		return nil, verr.New(verr.Usage, fmt.Sprintf("cannot check the verdicts with --effect %g%%", 100*c.Effect),
			"--effect says how much slower the slower path is, above 0% and up to 1000%", "give a share such as 3%")
	}
	return all, nil
}

func nothingToCount(section, flag string, count int) error {
	return verr.New(verr.Usage, fmt.Sprintf("cannot check section %s with %s %d", section, flag, count), "that leaves nothing to count",
		"give 1 or more, or choose other sections with --only")
}

// measure makes the comparisons, printing each on w.
func (c Stats) measure(ctx context.Context, w io.Writer, h compare.Host, all []comparisons) (found outcomes, err error) {
	base := compare.Request{Paths: []string{"host", "host"}, Loads: load.Default[:1], Margin: c.Margin, Budget: c.Budget, Slice: c.Slice,
		Command: []string{"venturi", "verify", "stats"}, Wait: true}
	b, err := OpenComparer(ctx, base, h)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, b.Close()) }()
	type comparison struct {
		comparisons
		nth int
	}
	var queue []comparison
	found = outcomes{}
	most := time.Duration(0)
	for _, n := range all {
		found[n.name] = make([]outcome, n.count)
		most += time.Duration(n.count) * n.budget
		for i := range n.count {
			queue = append(queue, comparison{n, i})
		}
	}
	rng := rand.New(rand.NewPCG(c.Seed, 1))
	rng.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
	fmt.Fprintf(w, "%d comparisons in slices of %s, %s at most\n\n", len(queue), c.Slice, most.Round(time.Second))
	rtt := map[string]float64{} // of the baseline when it was last measured, ns
	for i, n := range queue {
		q := base
		at := n.nth / n.perLoad % 2
		q.Loads = load.Default[at : at+1] // tcp_lat and udp_lat in turn
		q.Seed, q.Budget, q.UntilDecided = rng.Uint64(), n.budget, n.untilDecided
		if n.effect > 0 {
			if err := b.calibrate(ctx, &q, rtt, n.effect); err != nil {
				return nil, err
			}
		}
		out, floor, err := b.compareOnce(ctx, q, rtt)
		if err != nil {
			return nil, err
		}
		found[n.name][n.nth] = out
		fmt.Fprintf(w, "%3d/%d  %s  %-26s  %.4f [%.4f, %.4f]  floor ±%.2f %%  %4.1f s  %s\n", i+1, len(queue), q.Loads[0], n.name,
			out.row.Ratio.Value, out.row.Ratio.Lo, out.row.Ratio.Hi, 100*floor, out.took.Seconds(), verdictText(out.row.Judged.Verdict))
	}
	return found, nil
}

func verdictText(v stats.Verdict) string {
	if v == stats.NotJudged {
		return "too noisy for a verdict"
	}
	return string(v)
}

// compareOnce makes one comparison. Of its record it keeps what verdicts are made from.
func (b *Comparer) compareOnce(ctx context.Context, q compare.Request, rtt map[string]float64) (out outcome, floor float64, err error) {
	began := time.Now()
	if out.rec, err = b.Record(ctx, q); err != nil {
		return out, 0, err
	}
	s, err := analysis.Analyze(out.rec, analysis.Options{Live: true})
	if err != nil {
		return out, 0, err
	}
	out.took = time.Since(began)
	rtt[q.Loads[0]] = 2 * s.Cells[0].Rows[0].Value
	row := s.Cells[0].Row(testedArm)
	if row == nil || row.Ratio == nil || row.Judged == nil {
		return out, 0, fmt.Errorf("%s has no ratio to the host network", testedArm)
	}
	out.row = *row
	if f := s.Cells[0].Floor; f != nil {
		floor = f.Size
	}
	out.rec.Meters = nil
	for i := range out.rec.Slices {
		if l := out.rec.Slices[i].Latency; l != nil {
			l.RTT = nil
		}
	}
	return out, floor, nil
}

// calibrate sets the spin of the second path to the wanted share of the round
// trip, which it measures first if no comparison has yet.
func (b *Comparer) calibrate(ctx context.Context, q *compare.Request, rtt map[string]float64, effect float64) error {
	name := q.Loads[0]
	if rtt[name] == 0 {
		short := *q
		short.Budget, short.Series, short.Rounds, short.UntilDecided = 0, 3, 4, false
		if _, _, err := b.compareOnce(ctx, short, rtt); err != nil {
			return err
		}
	}
	q.Spin = map[int]time.Duration{1: engine.SpinFor(time.Duration(effect * rtt[name]))}
	return nil
}

// Check makes the comparisons, and holds what they came to against the limits.
func (c Stats) Check(ctx context.Context, w io.Writer, h compare.Host) error {
	sections, err := c.selection()
	if err != nil {
		return err
	}
	all, err := c.needs(sections)
	if err != nil {
		return err
	}
	start := time.Now()
	found, err := c.measure(ctx, w, h, all)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nmeasured in %s\n", time.Since(start).Round(time.Second))
	var limits []Requirement
	for _, s := range sections {
		fmt.Fprintf(w, "\n%s: %s\n", s.Name, s.Summary)
		held, err := s.check(c, w, found)
		if err != nil {
			return err
		}
		limits = append(limits, held...)
	}
	fmt.Fprintln(w)
	return CheckRequirements(w, "the verdicts are not as reliable as they should be", limits)
}

// Tally counts verdicts.
type Tally map[stats.Verdict]int

func (t Tally) String() string {
	return fmt.Sprintf("%d same, %d faster, %d slower, %d cannot tell, %d too noisy for a verdict",
		t[stats.Equivalent], t[stats.Faster], t[stats.Slower], t[stats.CannotTell], t[stats.NotJudged])
}

// differing counts the verdicts that claim a difference.
func (t Tally) differing() int { return t[stats.Faster] + t[stats.Slower] }

func tallyOf(found []outcome) Tally {
	t := Tally{}
	for _, o := range found {
		t[o.row.Judged.Verdict]++
	}
	return t
}

func (c Stats) checkVerdicts(w io.Writer, found outcomes) ([]Requirement, error) {
	same, slower := tallyOf(found[identicalName]), tallyOf(found[slowerName(c.Effect)])
	fmt.Fprintf(w, "runs of %s, margin %.2g %%\nidentical paths: %v\n%s: %v\n", c.Budget, 100*c.Margin, same, slowerName(c.Effect), slower)
	return []Requirement{
		atMost("false alarms", same.differing(), len(found[identicalName]), maxFalseAlarms),
		atLeast("slower paths detected", slower[stats.Slower], c.Slower, minDetected),
	}, nil
}

// atMost requires that a count is at most a share of all.
func atMost(what string, n, of int, share float64) Requirement {
	return Requirement{Text: fmt.Sprintf("%s: %d of %d, at most %.0f %%", what, n, of, 100*share), Holds: float64(n) <= share*float64(of)}
}

// atLeast requires that a count is at least a share of all.
func atLeast(what string, n, of int, share float64) Requirement {
	return Requirement{Text: fmt.Sprintf("%s: %d of %d, at least %.0f %%", what, n, of, 100*share), Holds: float64(n) >= share*float64(of)}
}
