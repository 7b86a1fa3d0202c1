package verify

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verr"
)

// Stats checks the verdicts: it makes many comparisons of two identical arms, and many in
// which the responder of one arm is busy for a known share of the round trip. They come
// in random order, so that drift of the machine affects both kinds.
type Stats struct {
	Identical int           // comparisons of identical arms
	Slower    int           // comparisons with a slower arm
	Effect    float64       // how much slower: 0.03
	Margin    float64       // of the verdicts
	Budget    time.Duration // of one comparison
	Slice     time.Duration // shorter ones make better use of a budget
	Seed      uint64
	// UntilDecided checks runs that stop as soon as they have a verdict, after Budget
	// at the latest.
	UntilDecided bool
}

// decideWithin is how long the median run may take to see a difference, by its size.
var decideWithin = map[float64]time.Duration{0.10: 3 * time.Second, 0.05: 8 * time.Second, 0.03: 20 * time.Second}

// DefaultStats is what a claim about the verdicts rests on.
func DefaultStats() Stats {
	return Stats{Identical: 100, Slower: 40, Effect: 0.03, Margin: 0.01,
		Budget: 10 * time.Second, Slice: 10 * time.Millisecond, Seed: 1}
}

// Bars of the check, as shares: false alarms at most, and slower arms seen at least.
const (
	maxFalseAlarms = 0.08
	minDetected    = 0.90
)

// testedArm is the arm under test: the host path for the third time, after the baseline
// and its copy.
const testedArm = "host.2"

// Tally counts verdicts.
type Tally map[stats.Verdict]int

func (t Tally) String() string {
	return fmt.Sprintf("%d same, %d faster, %d slower, %d cannot tell, %d too noisy for a verdict",
		t[stats.Equivalent], t[stats.Faster], t[stats.Slower], t[stats.CannotTell], t[stats.NotJudged])
}

// VerdictTallies are what the comparisons came to.
type VerdictTallies struct {
	Identical, Slower Tally           // verdicts on identical and on slower arms
	Took              []time.Duration // by the comparisons that found the slower arm slower
}

// Run makes the comparisons, printing each on w.
func (c Stats) Run(ctx context.Context, w io.Writer, h compare.Host) (out VerdictTallies, err error) {
	out = VerdictTallies{Identical: Tally{}, Slower: Tally{}}
	if c.Identical < 0 || c.Slower < 0 || c.Identical+c.Slower == 0 || c.Effect <= 0 || c.Effect > 10 {
		return out, verr.New(verr.Usage, "cannot check the verdicts with these numbers",
			fmt.Sprintf("--same %d --slower %d --effect %g%% leave nothing to count", c.Identical, c.Slower, 100*c.Effect),
			"ask for at least one comparison, and for an effect above 0")
	}
	base := compare.Request{Paths: []string{"host", "host"}, Loads: load.Default[:1], Margin: c.Margin, Budget: c.Budget, Slice: c.Slice, UntilDecided: c.UntilDecided,
		Command: []string{"venturi", "verify", "stats"}, Wait: true}
	b, err := OpenComparer(ctx, base, h)
	if err != nil {
		return out, err
	}
	defer func() {
		if cerr := b.Close(); err == nil {
			err = cerr
		}
	}()
	rng := rand.New(rand.NewPCG(c.Seed, 1))
	rtt := map[string]float64{} // of the baseline when it was last measured, ns
	for i, nth := range rng.Perm(c.Identical + c.Slower) {
		q := base
		q.Loads = load.Default[i%2 : i%2+1] // tcp_lat and udp_lat in turn
		q.Seed = rng.Uint64()
		busy := nth >= c.Identical
		if busy {
			if err := b.calibrate(ctx, &q, rtt, c.Effect); err != nil {
				return out, err
			}
		}
		began := time.Now()
		s, err := b.Compare(ctx, q)
		if err != nil {
			return out, err
		}
		took := time.Since(began)
		row, floor := rowUnderTest(s)
		rtt[q.Loads[0]] = 2 * s.Cells[0].Rows[0].Value
		tally, kind := out.Identical, "identical"
		if busy {
			tally, kind = out.Slower, fmt.Sprintf("%.2g %% slower", 100*c.Effect)
		}
		tally[row.Judged.Verdict]++
		verdict := string(row.Judged.Verdict)
		if row.Judged.Verdict == stats.NotJudged {
			verdict = "too noisy for a verdict"
		}
		if busy && row.Judged.Verdict == stats.Slower {
			out.Took = append(out.Took, took)
		}
		fmt.Fprintf(w, "%3d/%d  %s  %-12s  %.4f [%.4f, %.4f]  floor ±%.2f %%  %4.1f s  %s\n", i+1, c.Identical+c.Slower, q.Loads[0], kind,
			row.Ratio.Value, row.Ratio.Lo, row.Ratio.Hi, 100*floor, took.Seconds(), verdict)
	}
	return out, nil
}

// calibrate sets the spin of the second path to the wanted share of the round
// trip, which it measures first if no comparison has yet.
func (b *Comparer) calibrate(ctx context.Context, q *compare.Request, rtt map[string]float64, effect float64) error {
	name := q.Loads[0]
	if rtt[name] == 0 {
		short := *q
		short.Budget, short.Series, short.Rounds, short.UntilDecided = 0, 3, 4, false
		s, err := b.Compare(ctx, short)
		if err != nil {
			return err
		}
		rtt[name] = 2 * s.Cells[0].Rows[0].Value
	}
	q.Spin = map[int]time.Duration{1: engine.SpinFor(time.Duration(effect * rtt[name]))}
	return nil
}

func rowUnderTest(s *analysis.Summary) (row analysis.Row, floor float64) {
	if r := s.Cells[0].Row(testedArm); r != nil {
		row = *r
	}
	if f := s.Cells[0].Floor; f != nil {
		floor = f.Size
	}
	return row, floor
}

// Check runs the comparisons and holds the rates against the bars.
func (c Stats) Check(ctx context.Context, w io.Writer, h compare.Host) error {
	start := time.Now()
	out, err := c.Run(ctx, w, h)
	if err != nil {
		return err
	}
	same, slower := out.Identical, out.Slower
	alarms := same[stats.Faster] + same[stats.Slower]
	fmt.Fprintf(w, "\n%d comparisons in %s, each at most %s in slices of %s, margin %.2g %%\n",
		c.Identical+c.Slower, time.Since(start).Round(time.Second), c.Budget, c.Slice, 100*c.Margin)
	fmt.Fprintf(w, "identical paths: %v\n%.2g %% slower: %v\n", same, 100*c.Effect, slower)
	bars := []Requirement{
		{Text: fmt.Sprintf("false alarms: %d of %d, at most %.0f %%", alarms, c.Identical, 100*maxFalseAlarms),
			Holds: float64(alarms) <= maxFalseAlarms*float64(c.Identical)},
		{Text: fmt.Sprintf("slower paths detected: %d of %d, at least %.0f %%", slower[stats.Slower], c.Slower, 100*minDetected),
			Holds: float64(slower[stats.Slower]) >= minDetected*float64(c.Slower)},
	}
	if limit := decideWithin[c.Effect]; c.UntilDecided && limit > 0 && len(out.Took) > 0 {
		slices.Sort(out.Took)
		median := out.Took[len(out.Took)/2]
		bars = append(bars, Requirement{Text: fmt.Sprintf("median time to detect a slower path: %.1f s, at most %s", median.Seconds(), limit), Holds: median <= limit})
	}
	return CheckRequirements(w, "the verdicts are not as reliable as they should be", bars)
}
