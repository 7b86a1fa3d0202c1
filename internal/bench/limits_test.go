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

// In every section that holds a ratio against a limit, the limit asks for an interval that
// is narrow enough to mean something.
func TestLimitsAskForNarrowIntervals(t *testing.T) {
	sections := map[string]func(r *stats.Ratio) []verify.Requirement{
		"comparisons": func(r *stats.Ratio) (limits []verify.Requirement) {
			for _, c := range fastCompares {
				s := &analysis.Summary{}
				for _, l := range fastLimits {
					s.Cells = append(s.Cells, analysis.Cell{
						Cell: result.Cell{Load: l.load, Flows: l.flows},
						Rows: []analysis.Row{{Arm: result.Arm{Name: l.arm}, Ratio: r, CPU: &analysis.CPU{Ratio: r}}},
					})
				}
				limits = append(limits, c.requirements(s)...)
			}
			return limits
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
			limits, narrow := judge(c.ratio), 0
			for _, l := range limits {
				if strings.Contains(l.Text, "within 4 %") && l.Holds == c.narrow {
					narrow++
				}
			}
			if len(limits) == 0 || 2*narrow != len(limits) {
				t.Errorf("%s, %s: of %d limits, %d are of an interval that is narrow (%v); want half of them", name, c.name, len(limits), narrow, c.narrow)
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
		for _, l := range rewriteLimits {
			m[l.load] = struct{ path, ratio float64 }{0, math.Log(at)}
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
		if got := narrowLimit("it", &c.ratio); got.Holds != c.want {
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
