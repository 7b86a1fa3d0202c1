package verify

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// madeOutcome is a comparison of three arms that are the host network, the last of them
// slower by a share.
func madeOutcome(t *testing.T, seed uint64, cell result.Cell, slower float64) outcome {
	t.Helper()
	rec := recordtest.Make(recordtest.Truth{Seed: seed, Series: 14, Rounds: 6, Margin: 0.01, Noise: recordtest.Quiet, Cells: []result.Cell{cell},
		Arms: []recordtest.Arm{recordtest.Host(), recordtest.Copy(), recordtest.Path(testedArm, 1+slower)}})
	s, err := analysis.Analyze(rec, analysis.Options{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	return outcome{rec: rec, row: *s.Cells[0].Row(testedArm), took: 2 * time.Second}
}

// madeOutcomes are n comparisons, two of a load after each other.
func madeOutcomes(t *testing.T, seed uint64, n int, slower float64, together int) (out []outcome) {
	t.Helper()
	for i := range n {
		cell := []result.Cell{recordtest.TCPLat, recordtest.UDPLat}[i/together%2]
		out = append(out, madeOutcome(t, seed+uint64(i), cell, slower))
	}
	return out
}

func holding(limits []Requirement) (out []bool) {
	for _, l := range limits {
		out = append(out, l.Holds)
	}
	return out
}

// The limits hold for verdicts that are right, and are missed by those that are wrong.
func TestStatsLimits(t *testing.T) {
	c := DefaultStats()
	c.Identical, c.Slower, c.Runs, c.Replays, c.Pairs, c.Decisions = 12, 6, 3, 40, 6, c.Decisions[:1]
	right := outcomes{
		identicalName: madeOutcomes(t, 1, 12, 0, 2), slowerName(c.Effect): madeOutcomes(t, 100, 6, c.Effect, 1),
		decisionName(c.Decisions[0]): madeOutcomes(t, 200, 3, 0.1, 1), c.pairName(): madeOutcomes(t, 300, 6, c.PairEffect, 1),
	}
	// Identical arms of which one is slower in every second record, and slower arms that are not.
	wrong := outcomes{
		identicalName: madeOutcomes(t, 1, 12, 0, 2), slowerName(c.Effect): madeOutcomes(t, 100, 6, 0, 1),
		decisionName(c.Decisions[0]): madeOutcomes(t, 200, 3, 0, 1), c.pairName(): madeOutcomes(t, 300, 6, 0, 1),
	}
	for i := 1; i < 12; i += 2 {
		wrong[identicalName][i] = madeOutcome(t, uint64(i), wrong[identicalName][i].rec.Plan.Cells[0], 0.1)
	}
	for _, s := range StatsSections {
		for name, found := range map[string]outcomes{"right": right, "wrong": wrong} {
			var out bytes.Buffer
			limits, err := s.check(c, &out, found)
			if err != nil {
				t.Fatal(err)
			}
			want := []bool{name == "right", name == "right"}[:len(limits)]
			if s.Name == "anytime" && name == "wrong" {
				want[1] = true // exchanged at random, no arm is always the slower one
			}
			if got := holding(limits); !slices.Equal(got, want) {
				t.Errorf("%s, %s verdicts: limits hold %v, want %v: %+v\n%s", s.Name, name, got, want, limits, &out)
			}
		}
	}
}

// A replayed run has whole series of its load, each once, and all arms in each.
func TestReplay(t *testing.T) {
	pools := seriesByLoad(madeOutcomes(t, 1, 4, 0, 2))
	if len(pools) != 2 || len(pools[0].series) != 28 {
		t.Fatalf("%d pools", len(pools))
	}
	rec := pools[1].replay(rand.New(rand.NewPCG(1, 1)))
	if rec.Plan.Series != 28 || len(rec.Slices) != 28*6*3 {
		t.Fatalf("%d series, %d slices", rec.Plan.Series, len(rec.Slices))
	}
	seen := map[[3]any]bool{}
	for i, s := range rec.Slices {
		if s.Cell != recordtest.UDPLat.Name || i > 0 && s.Series < rec.Slices[i-1].Series || seen[[3]any{s.Series, s.Round, s.Arm}] {
			t.Fatalf("slice %d: %+v", i, s)
		}
		seen[[3]any{s.Series, s.Round, s.Arm}] = true
	}
}

func TestMedianTime(t *testing.T) {
	run := func(v stats.Verdict, took time.Duration) outcome {
		return outcome{row: analysis.Row{Judged: &stats.Judgement{Verdict: v}}, took: took}
	}
	found, missed := run(stats.Slower, 2*time.Second), run(stats.CannotTell, time.Second)
	for _, c := range []struct {
		runs []outcome
		want time.Duration
	}{{nil, notFound}, {[]outcome{missed, found, found}, 2 * time.Second}, {[]outcome{missed, missed, found}, notFound}, {[]outcome{found, missed}, notFound}} {
		if got := medianTime(c.runs); got != c.want {
			t.Errorf("%d runs: %v, want %v", len(c.runs), got, c.want)
		}
	}
}

// Sections share comparisons, and what cannot be counted is refused before a lab is raised.
func TestStatsNeeds(t *testing.T) {
	c := DefaultStats()
	all, err := c.needs(StatsSections)
	if err != nil {
		t.Fatal(err)
	}
	counts, most := map[string]int{}, time.Duration(0)
	for _, n := range all {
		counts[n.name] += n.count
		most += time.Duration(n.count) * n.budget
	}
	if counts[identicalName] != 100 || len(all) != 6 {
		t.Errorf("comparisons: %v", counts)
	}
	c.Sections = []string{"pairs"}
	only, err := c.selection()
	if err != nil || len(only) != 1 {
		t.Fatalf("%d sections, %v", len(only), err)
	}
	if all, err := c.needs(only); err != nil || len(all) != 2 || all[0].count != 40 {
		t.Errorf("comparisons of pairs: %+v, %v", all, err)
	}
	for text, change := range map[string]func(*Stats){
		`"nothing"`:     func(c *Stats) { c.Sections = []string{"nothing"} },
		"--same -1":     func(c *Stats) { c.Identical = -1 },
		"--same 0":      func(c *Stats) { c.Identical = 0 },
		"--slower 0":    func(c *Stats) { c.Slower = 0 },
		"--runs 0":      func(c *Stats) { c.Runs = 0 },
		"--replays 0":   func(c *Stats) { c.Replays = 0 },
		"--pairs 0":     func(c *Stats) { c.Pairs = 0 },
		"--effect 0%":   func(c *Stats) { c.Effect = 0 },
		"pairs with --": func(c *Stats) { c.Sections, c.Pairs = []string{"pairs"}, 0 },
	} {
		c := DefaultStats()
		change(&c)
		if err := c.Check(t.Context(), io.Discard, compare.Host{}); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "cannot check") || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	c.Runs, c.Slower, c.Identical = 0, 0, 0 // of other sections
	if _, err := c.needs(only); err != nil {
		t.Error(err)
	}
}

// A name that the check does not know is refused, also beside one that it knows.
func TestAgreeNames(t *testing.T) {
	for name, c := range map[string]Agree{
		"tpc_lat": {Loads: []string{"tcp_bw", "tpc_lat"}},
		"qprf":    {Tools: []string{"qperf", "qprf"}},
	} {
		if _, err := c.runs(); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "tcp_bw") && !strings.Contains(err.Error(), "sockperf") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if runs, err := (Agree{Tools: []string{"qperf"}, Loads: []string{"tcp_bw", "udp_bw"}}).runs(); err != nil || len(runs) != 1 || len(runs[0].loads) != 2 {
		t.Errorf("%+v, %v", runs, err)
	}
}
