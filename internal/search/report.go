package search

import (
	"math"
	"slices"

	"github.com/venturi-net/venturi/internal/stats"
)

// Result is what a search found.
type Result struct {
	Noise   []Noise  `json:"noise"`
	Rows    []Row    `json:"rows"`              // one a knob
	Set     []string `json:"set"`               // the smallest set that was proven; may be empty
	Confirm []Effect `json:"confirm,omitempty"` // the set against the untouched state
	Reason  string   `json:"why,omitempty"`     // a set was found, and not confirmed
	Pairs   int      `json:"pairs"`             // that were measured
	Void    int      `json:"void,omitempty"`    // that could not be used
}

// Verdict on a knob.
type Verdict string

// The verdicts.
const (
	VerdictProven   Verdict = "proven"
	VerdictNotShown Verdict = "not shown"
	VerdictHarmful  Verdict = "harmful"
	VerdictNotTried Verdict = "not tried" // nothing was measured of it: Why says why not
)

// Row is what was found of a knob.
type Row struct {
	Knob    string   `json:"knob"`
	Verdict Verdict  `json:"verdict"`
	Metric  string   `json:"for,omitempty"` // the metric that it was proven for, or harms
	Reason  string   `json:"why,omitempty"`
	On      []string `json:"on,omitempty"` // the knobs that were on beside it
	Pairs   int      `json:"pairs"`
	Effects []Effect `json:"effects,omitempty"`
}

// Effect is the ratio of a metric with and without: 0.9 of latency is a tenth less.
type Effect struct {
	Metric string  `json:"metric"`
	Value  float64 `json:"value"`
	Lo     float64 `json:"lo"` // of its 95 % interval
	Hi     float64 `json:"hi"`
	Open   bool    `json:"open,omitempty"` // too few pairs for an interval
	P      float64 `json:"p"`              // two-sided, of "no effect"
	Pairs  int     `json:"pairs"`
}

// effects are the ratios of all metrics of a contest.
func (r *run) effects(c *contest) []Effect {
	var out []Effect
	for m, metric := range r.Metrics {
		if len(c.gains[m]) == 0 {
			continue
		}
		logs := slices.Clone(c.gains[m])
		if metric.LowerIsBetter {
			for i := range logs {
				logs[i] = -logs[i]
			}
		}
		e := Effect{Metric: metric.Name, Pairs: len(logs), P: stats.SignedRank(logs)}
		est, lo, hi, ok := stats.HodgesLehmann(logs, 0.95)
		e.Value = math.Exp(est)
		e.Open = !ok
		if ok {
			e.Lo, e.Hi = math.Exp(lo), math.Exp(hi)
		}
		out = append(out, e)
	}
	return out
}

// report fills in the rows of a search that ended with an error, or with none.
func (r *run) report(set Subset, proofs map[int]*proof, ended error) {
	r.out.Pairs, r.out.Void = r.used, r.void
	r.out.Set = r.names(set)
	harmful := r.harmful()
	for k, knob := range r.Knobs {
		row := Row{Knob: knob.Name, Verdict: VerdictNotShown}
		c := r.arms[k].best
		switch p := proofs[k]; {
		case slices.Contains(set, k):
			row.Verdict, row.Metric, c = VerdictProven, r.Metrics[p.metric].Name, p.contest
		case harmful[k] != "":
			row.Verdict, row.Metric = VerdictHarmful, harmful[k]
		case p != nil && p.pairs == 0:
			row.Reason = "time was up before it could be shown by taking it away"
		case p != nil && p.significant:
			row.Reason, c = "it was, but the set that it is in was not confirmed", p.contest
		case p != nil:
			row.Reason, c = "taking it away again was not missed", p.contest
		case r.arms[k].harm != "":
			row.Reason = "given up: it seemed to make " + r.arms[k].harm + " worse"
		}
		switch {
		case c == nil || c.pairs == 0 && c.broken == nil:
			row.Verdict, row.Reason = VerdictNotTried, "time was up before its turn"
			if ended != nil {
				row.Reason = "the search ended before its turn"
			}
		default:
			row.Pairs, row.Effects = c.pairs, r.effects(c)
			row.On = r.names(Subset(slices.DeleteFunc(slices.Clone(c.to), func(o int) bool { return o == k })))
			if c.broken != nil {
				row.Reason = c.broken.Error()
			}
		}
		r.out.Rows = append(r.out.Rows, row)
	}
}

func (r *run) names(s Subset) []string {
	names := make([]string, len(s))
	for i, k := range s {
		names[i] = r.Knobs[k].Name
	}
	return names
}

// harmful gives what is shown to be made worse by a knob on its own, corrected for
// the number of things that were looked at (Bonferroni).
func (r *run) harmful() map[int]string {
	out := map[int]string{}
	alpha := 0.05 / float64(len(r.Knobs)*(len(r.Metrics)+len(r.Troubles)))
	for k := range r.Knobs {
		c := r.arms[k].best
		if c == nil || c.pairs == 0 && c.broken == nil {
			continue
		}
		if c.broken != nil {
			out[k] = "everything"
			continue
		}
		for m, metric := range r.Metrics {
			worse := len(c.gains[m]) > 0 && metric.Role != Reported && c.gain(m) < -r.worth(m) && stats.Median(c.gains[m]) < 0
			if worse && stats.SignedRank(c.gains[m]) <= alpha {
				out[k] = metric.Name
			}
		}
		for t, name := range r.Troubles {
			if troubleGrew(c.growth[t], alpha) {
				out[k] = name
			}
		}
	}
	return out
}
