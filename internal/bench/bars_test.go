package bench

import (
	"math"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verify"
	"github.com/venturi-net/venturi/result"
)

// In every section that holds a ratio against a bar, the bar asks for an interval that
// is narrow enough to mean something.
func TestBarsAskForNarrowIntervals(t *testing.T) {
	sections := map[string]func(r *stats.Ratio) []verify.Requirement{
		"comparisons": func(r *stats.Ratio) (bars []verify.Requirement) {
			for _, c := range fastCompares {
				s := &analysis.Summary{}
				for _, b := range fastBars {
					s.Cells = append(s.Cells, analysis.Cell{
						Cell: result.Cell{Load: b.load, Flows: b.flows},
						Rows: []analysis.Row{{Arm: result.Arm{Name: b.arm}, Ratio: r, CPU: &analysis.CPU{Ratio: r}}},
					})
				}
				bars = append(bars, c.requirements(s)...)
			}
			return bars
		},
		"rewrites": func(r *stats.Ratio) []verify.Requirement { return judgeRewrites("vxlan+fast", samplesOf(r)) },
		"flows":    func(r *stats.Ratio) []verify.Requirement { return judgeSame("flows", "that with 1", r) },
		"in turn":  func(r *stats.Ratio) []verify.Requirement { return judgeRoundRobin("flows in turn", r) },
		"flood":    judgeFlood,
		"programs": func(r *stats.Ratio) []verify.Requirement {
			return programTime{program: "from_wire", load: "udp_bw", flows: 1, ratio: r}.requirements("vxlan+fast")
		},
	}
	for name, judge := range sections {
		for _, c := range []struct {
			name   string
			ratio  *stats.Ratio
			narrow bool
		}{
			{"none", nil, false},
			{"open", &stats.Ratio{Value: 1, Open: true}, false},
			{"wide", &stats.Ratio{Value: 1, Lo: 0.5, Hi: 2}, false},
			{"narrow", &stats.Ratio{Value: 1, Lo: 0.99, Hi: 1.01}, true},
		} {
			bars, narrow := judge(c.ratio), 0
			for _, b := range bars {
				if strings.Contains(b.Text, "within 4 %") && b.Holds == c.narrow {
					narrow++
				}
			}
			if len(bars) == 0 || 2*narrow != len(bars) {
				t.Errorf("%s, %s: of %d bars, %d are of an interval that is narrow (%v); want half of them", name, c.name, len(bars), narrow, c.narrow)
			}
		}
	}
}

// samplesOf are samples that give this ratio to the host network.
func samplesOf(r *stats.Ratio) (all []sample) {
	times := 2 * minStates
	switch {
	case r == nil:
		return nil
	case r.Open:
		times = 1
	}
	for i := range times {
		at := [...]float64{r.Lo, r.Value, r.Hi}[i%3]
		if r.Open {
			at = r.Value
		}
		m := sample{}
		for _, b := range rewriteBars {
			m[b.load] = struct{ path, ratio float64 }{0, math.Log(at)}
		}
		all = append(all, m)
	}
	return all
}

// The interval is narrow up to 4 % to each side.
func TestIsNarrow(t *testing.T) {
	for _, c := range []struct {
		ratio stats.Ratio
		want  bool
	}{
		{stats.Ratio{Value: 2, Lo: 1.93, Hi: 2.07}, true},
		{stats.Ratio{Value: 2, Lo: 1.91, Hi: 2.09}, false},
		{stats.Ratio{Value: 0.5, Lo: 0.47, Hi: 0.53}, false},
		{stats.Ratio{Value: 1, Open: true}, false},
	} {
		if got := narrowBar("it", &c.ratio); got.Holds != c.want {
			t.Errorf("%+v: %v, want %v", c.ratio, got.Holds, c.want)
		}
	}
}

// The same latency is one that either end of a narrow interval comes near to.
func TestJudgeSame(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   bool
	}{
		{0.99, 1.01, true}, {1.02, 1.06, true}, {1.035, 1.06, false}, {0.94, 0.965, false}, {0.5, 2, false},
	} {
		held := true
		for _, b := range judgeSame("it", "that", &stats.Ratio{Value: math.Sqrt(c.lo * c.hi), Lo: c.lo, Hi: c.hi}) {
			held = held && b.Holds
		}
		if held != c.want {
			t.Errorf("[%v, %v]: %v, want %v", c.lo, c.hi, held, c.want)
		}
	}
}
