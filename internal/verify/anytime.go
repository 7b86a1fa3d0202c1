package verify

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// maxWrong is the share of runs that may ever decide wrongly, however often one looks.
const maxWrong = 0.05

// replayedSeries is how many series a replayed run has: about what a run of a minute has.
const replayedSeries = 30

func (c Stats) anytimeNeeds() []comparisons { return []comparisons{c.identical(c.Identical, "--same")} }

// checkAnytime looks at runs of identical arms after each series, as a run does that stops
// when it is decided, and counts those that ever find a difference. They are looked at
// until their end: one that stopped at "same" could be wrong less often.
func (c Stats) checkAnytime(w io.Writer, found outcomes) ([]Requirement, error) {
	live, err := wrongRuns(len(found[identicalName]), func(i int) *result.Record { return found[identicalName][i].rec })
	if err != nil {
		return nil, err
	}
	pools := seriesByLoad(found[identicalName])
	if len(pools) == 0 {
		return nil, nil
	}
	rng := rand.New(rand.NewPCG(c.Seed, 2))
	replayed, err := wrongRuns(c.Replays, func(i int) *result.Record { return pools[i%len(pools)].replay(rng) })
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "live: %d runs of %s; replayed: %d runs of up to %d series, drawn at random from those of the live runs, with the names of the arms exchanged at random\n",
		len(found[identicalName]), c.Budget, c.Replays, replayedSeries)
	return []Requirement{
		atMost("live runs of identical paths that ever decide wrongly", live, len(found[identicalName]), maxWrong),
		atMost("replayed runs of identical paths that ever decide wrongly", replayed, c.Replays, maxWrong),
	}, nil
}

// wrongRuns counts the runs of identical arms that ever find a difference.
func wrongRuns(n int, run func(i int) *result.Record) (wrong int, err error) {
	for i := range n {
		differs, err := everDiffers(run(i))
		if err != nil {
			return 0, err
		}
		if differs {
			wrong++
		}
	}
	return wrong, nil
}

// everDiffers tells whether one who looks after each series is ever told of a difference.
// The slices of a record come by series.
func everDiffers(rec *result.Record) (bool, error) {
	begun := *rec
	begun.Plan.UntilDecided, begun.End = true, nil
	for n := stats.MinSeries; n <= rec.Plan.Series; n++ {
		begun.Slices = rec.Slices[:sort.Search(len(rec.Slices), func(i int) bool { return rec.Slices[i].Series >= n })]
		s, err := analysis.Analyze(&begun, analysis.Options{Live: true})
		if err != nil {
			return false, err
		}
		if row := s.Cells[0].Row(testedArm); row != nil && row.Judged != nil && tallyOf([]outcome{{row: *row}}).differing() > 0 {
			return true, nil
		}
	}
	return false, nil
}

// seriesPool is the recorded series of one load.
type seriesPool struct {
	plan   result.Plan
	series [][]result.Slice
}

func seriesByLoad(found []outcome) (pools []*seriesPool) {
	for _, o := range found {
		at := slices.IndexFunc(pools, func(p *seriesPool) bool { return p.plan.Cells[0].Name == o.rec.Plan.Cells[0].Name })
		if at < 0 {
			at, pools = len(pools), append(pools, &seriesPool{plan: o.rec.Plan})
		}
		for i, s := range o.rec.Slices {
			if i == 0 || s.Series != o.rec.Slices[i-1].Series {
				pools[at].series = append(pools[at].series, nil)
			}
			last := len(pools[at].series) - 1
			pools[at].series[last] = append(pools[at].series[last], s)
		}
	}
	return pools
}

// replay makes a run of recorded series in random order. Identical arms may exchange their
// names in any series, which makes many runs of a few.
func (p *seriesPool) replay(rng *rand.Rand) *result.Record {
	rec := &result.Record{Plan: p.plan}
	rec.Plan.Series = min(replayedSeries, len(p.series))
	for n, from := range rng.Perm(len(p.series))[:rec.Plan.Series] {
		names := map[string]string{}
		for i, other := range rng.Perm(len(p.plan.Arms)) {
			names[p.plan.Arms[i].Name] = p.plan.Arms[other].Name
		}
		for _, s := range p.series[from] {
			s.Arm, s.Series = names[s.Arm], n
			rec.Slices = append(rec.Slices, s)
		}
	}
	return rec
}

func decisionName(d Decision) string { return slowerName(d.Effect) + ", until decided" }

// decisionNeeds are runs with a difference. One that takes twice the time that the median
// may take is given up.
func (c Stats) decisionNeeds() (all []comparisons) {
	for _, d := range c.Decisions {
		all = append(all, comparisons{name: decisionName(d), count: c.Runs, flag: "--runs", effect: d.Effect, budget: 2 * d.Limit, untilDecided: true, perLoad: 1})
	}
	return all
}

func (c Stats) checkDecisions(w io.Writer, found outcomes) (limits []Requirement, _ error) {
	for _, d := range c.Decisions {
		runs := found[decisionName(d)]
		fmt.Fprintf(w, "%s: %v\n", slowerName(d.Effect), tallyOf(runs))
		median := medianTime(runs)
		limits = append(limits, Requirement{Text: fmt.Sprintf("%s: median time until it is found, of %d runs: %s, at most %s", slowerName(d.Effect), len(runs), seconds(median), d.Limit),
			Holds: median <= d.Limit})
	}
	return limits, nil
}

// notFound is the time of a run that has not found the difference.
const notFound = time.Duration(math.MaxInt64)

// medianTime is the median of how long it took to find the arm slower; of an even number of
// runs it is the greater one.
func medianTime(runs []outcome) time.Duration {
	if len(runs) == 0 {
		return notFound
	}
	var took []time.Duration
	for _, o := range runs {
		if o.row.Judged.Verdict != stats.Slower {
			o.took = notFound
		}
		took = append(took, o.took)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

func seconds(d time.Duration) string {
	if d == notFound {
		return "never"
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
