package verify

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/comparetest"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Roles{"agent": agenttest.RunAgent, "fastpath": agenttest.RunFastPath})
}

// TestStatsShort runs all sections of the check of the verdicts. Each comparison is counted once,
// and an arm that is much slower is not called faster or the same. The best of a few tries counts:
// the delay is a part of the round trip of a moment before, and is nothing beside the round trip
// on a machine that has become busy. How many verdicts are right is measured by the benchmark,
// make bench-stats.
func TestStatsShort(t *testing.T) { bestOf(t, statsOnce) }

// statsOnce tells which verdicts cannot be.
func statsOnce(t *testing.T, seed uint64) (wrong []string) {
	t.Helper()
	c := Stats{Identical: 4, Slower: 2, Effect: 0.6, Margin: 0.03, Budget: 3 * time.Second, Slice: 10 * time.Millisecond, Seed: seed,
		Decisions: []Decision{{0.5, 3 * time.Second}}, Runs: 1, Replays: 20, Pairs: 2, PairEffect: 0.7, PairBudget: 3 * time.Second}
	all, err := c.needs(StatsSections)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	found, err := c.measure(t.Context(), &out, comparetest.Host(t), all)
	if err != nil {
		t.Logf("\n%s", out.String())
		t.Fatal(err)
	}
	limits := map[string]int{"verdicts": 2, "anytime": 2, "decided": 1, "pairs": 2}
	for _, s := range StatsSections {
		held, err := s.check(c, &out, found)
		if err != nil {
			t.Fatal(err)
		}
		if len(held) != limits[s.Name] {
			t.Errorf("%s: %d limits, want %d: %+v", s.Name, len(held), limits[s.Name], held)
		}
	}
	t.Logf("\n%s", out.String())
	for name, want := range map[string]int{"identical": 4, "60 % slower": 2, "50 % slower, until decided": 1, "70 % slower, for a pair": 2} {
		verdicts := tallyOf(found[name])
		counted := 0
		for _, n := range verdicts {
			counted += n
		}
		if counted != want {
			t.Errorf("%s: %d verdicts, want one of each of %d comparisons: %v", name, counted, want, verdicts)
		}
		if name != "identical" && verdicts[stats.Faster]+verdicts[stats.Equivalent] > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: %v", name, verdicts))
		}
	}
	for k := range c.Pairs {
		row, err := comparePair(found["identical"][2*k].rec, found["70 % slower, for a pair"][k].rec)
		if err != nil {
			t.Fatal(err)
		}
		if v := row.Judged.Verdict; v == stats.Faster || v == stats.Equivalent {
			wrong = append(wrong, fmt.Sprintf("pair %d: the later record is 70 %% slower, and found %s", k, v))
		}
	}
	return wrong
}

// TestAgreeShort runs every pair once and wants a line for each, with a ratio
// that a unit or a factor of two in the wrong place would not give.
// The best of a few tries counts: what else runs may disturb one end of a pair alone.
func TestAgreeShort(t *testing.T) { bestOf(t, agreeOnce) }

// bestOf fails if each of a few tries has something wrong.
func bestOf(t *testing.T, once func(t *testing.T, seed uint64) (wrong []string)) {
	t.Helper()
	const tries = 3
	for try := 1; ; try++ {
		wrong := once(t, uint64(try))
		if len(wrong) == 0 {
			return
		}
		if try == tries {
			t.Fatalf("each of %d tries has what cannot be, the last one: %s", tries, strings.Join(wrong, "; "))
		}
	}
}

// A tool that is asked for and not there is an error, before a lab is raised.
func TestAgreeWithoutTool(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	c := DefaultAgree()
	c.Tools = []string{"sockperf", "qperf"}
	if err := c.Check(t.Context(), io.Discard, compare.Host{}); verr.Code(err) != verr.Missing || !strings.Contains(err.Error(), "sockperf") {
		t.Errorf("%v", err)
	}
	runs, err := DefaultAgree().runs()
	if err != nil {
		t.Fatal(err)
	}
	if left, err := DefaultAgree().absentTools(runs); err != nil || !left["netperf"] || !left["sockperf"] || left["qperf"] {
		t.Errorf("left out where nobody asks: %v, %v", left, err)
	}
}

// agreeOnce tells which lines have a ratio that cannot be.
func agreeOnce(t *testing.T, seed uint64) (wrong []string) {
	t.Helper()
	c := Agree{Pairs: 1, Slice: 2 * time.Second, Seed: seed}
	h := comparetest.Host(t)
	var out bytes.Buffer
	err := c.Check(t.Context(), &out, h)
	t.Logf("\n%s", out.String())
	if err != nil && verr.Code(err) != verr.Failed {
		t.Fatal(err)
	}
	for _, want := range []string{"tcp_lat/1 ", "udp_lat/1 ", "tcp_bw/65536 ", "udp_bw/1 ", "udp_bw/16 ", "ping/56 ", "udp_bw/1/batch=32 "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line for %s", want)
		}
	}
	for line := range strings.Lines(out.String()) {
		f := strings.Fields(line)
		if len(f) < 7 || f[1] != "qperf" && f[1] != "iperf3" {
			continue
		}
		var ratio float64
		if _, err := fmt.Sscan(f[6], &ratio); err != nil || ratio < 0.25 || ratio > 4 {
			wrong = append(wrong, fmt.Sprintf("%s beside %s: ratio %q", f[0], f[1], f[6]))
		}
	}
	return wrong
}

// TestJudge holds the limits on both sides of each bound.
func TestJudge(t *testing.T) {
	ratio := func(v, lo, hi float64) stats.Ratio { return stats.Ratio{Value: v, Lo: lo, Hi: hi} }
	cpu := ratio(1, 1.04, 1.1)
	worse := ratio(1.1, 1.06, 1.2)
	lat := result.Cell{Name: "udp_lat/1", Metric: result.OneWay, Transport: "udp"}
	bw := result.Cell{Name: "tcp_bw/65536", Metric: result.Bandwidth, Transport: "tcp"}
	for _, c := range []struct {
		cell result.Cell
		a    analysis.Agreement
		want []bool
	}{
		{lat, analysis.Agreement{Tool: "qperf", Ratio: ratio(1.04, 1, 1.1)}, []bool{true}},
		{lat, analysis.Agreement{Tool: "qperf", Ratio: ratio(1.06, 1, 1.1)}, []bool{false}},
		{lat, analysis.Agreement{Tool: "qperf", Ratio: ratio(0.94, 0.9, 1.1)}, []bool{false}},
		{bw, analysis.Agreement{Tool: "iperf3", Ratio: ratio(0.96, 0.95, 0.98), CPU: &cpu}, []bool{true, true, true}},
		{bw, analysis.Agreement{Tool: "qperf", Ratio: ratio(0.96, 0.95, 0.965), CPU: &worse}, []bool{true, false, false}},
		{bw, analysis.Agreement{Tool: "qperf", Ratio: ratio(1, 0.99, 1.01)}, []bool{true, true, false}},
	} {
		var got []bool
		for _, l := range agreementLimits(c.cell, c.a) {
			got = append(got, l.Holds)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %+v: %v, want %v", c.cell.Name, c.a, got, c.want)
		}
	}
}

func TestConclude(t *testing.T) {
	var out bytes.Buffer
	if err := CheckRequirements(&out, "bad", []Requirement{{Text: "one", Holds: true}, {Text: "two", Holds: true}}); err != nil {
		t.Error(err)
	}
	if err := CheckRequirements(&out, "bad", []Requirement{{Text: "one", Holds: true}, {Text: "two", Holds: false}}); verr.Code(err) != verr.Failed {
		t.Errorf("error %v", err)
	}
}
