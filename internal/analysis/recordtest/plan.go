package recordtest

import "github.com/venturi-net/venturi/result"

// MakePlan makes a short record of a plan: its cells and arms, of which each takes longer
// than the one before, with threads that are busy in all of them.
func MakePlan(p *result.Plan) *result.Record {
	t := Truth{Seed: p.Seed, Series: 3, Rounds: 2, Cells: p.Cells, Noise: Quiet, Margin: p.Margin, Histograms: true, Meters: true}
	for i, a := range p.Arms {
		out := Arm{Arm: a}
		if a.Role == "" {
			out.Factor = 1 + 0.06*float64(i)
		}
		t.Arms = append(t.Arms, out)
	}
	rec := Make(t)
	rec.Plan = *p
	rec.Plan.Series, rec.Plan.Rounds = t.Series, t.Rounds
	for _, a := range p.Arms {
		AddThreads(rec, a.Name, 0.4)
	}
	return rec
}

// AddThreads adds what the threads of a machine used on a path: in softirq, this share of
// a core.
func AddThreads(rec *result.Record, arm string, softirq float64) {
	for series := range rec.Plan.Series {
		for _, c := range rec.Plan.Cells {
			rec.Meters = append(rec.Meters, result.Meter{Cell: c.Name, Arm: arm, Series: series, Machine: "a", Name: "threads", WallNs: 1e9,
				Values: map[string]int64{"venturi/" + c.Load + " client#4" + arm: 95e7, "ksoftirqd/1#21": int64(softirq * 1e9), "kworker/0:1#77": 4e7, "idle#5": 1e6}})
		}
	}
}

// backgroundRate is how many messages a second a stream beside a load carries at factor 1.
func backgroundRate(b *result.BackgroundLoad) float64 {
	if b.Share > 0 {
		return b.Share * 6e5
	}
	if b.InBits() {
		return 5e9 / float64(b.Size)
	}
	return 6e5
}
