package analysis

import (
	"maps"
	"math"
	"slices"

	"github.com/venturi-net/venturi/result"
)

// leastHeld is the share of what was asked for that must be sent, and must arrive, for a
// rate to count as held.
const leastHeld = 0.99

// Offered tells what became of a rate that was asked for.
type Offered struct {
	// Sent and Received are shares of what was asked for, 0 to 1.
	Sent     float64 `json:"sent_share"`
	Received float64 `json:"received_share"`
	Reached  bool    `json:"held"`
}

// offered tells whether an arm held the rate of its cell.
func (d *armData) offered() Offered {
	return d.offeredBy(func(s *result.Slice) *result.Stream { return s.Stream })
}

// background sums the stream that ran beside a load.
func (d *armData) background(c result.Cell) *BackgroundTraffic {
	of := func(s *result.Slice) *result.Stream { return s.Background }
	if c.Background == nil {
		return nil
	}
	var out BackgroundTraffic
	var sent, received int64
	for _, s := range d.slices {
		if t := of(s); t != nil {
			sent += t.SentMessages
			received += t.RecvMessages
		}
	}
	if sent == 0 {
		return nil
	}
	out.LossShare = max(0, 1-float64(received)/float64(sent))
	if c.Background.Rate > 0 || c.Background.Share > 0 {
		o := d.offeredBy(of)
		out.Offered = &o
	}
	unit := 1.0
	if c.Background.InBits() {
		unit = 8 * float64(c.Background.Size) // bits of a message
	}
	rate := medianOfMedians(d.rates(func(s *result.Slice) (float64, bool) {
		t := of(s)
		if t == nil || t.RateNs <= 0 {
			return 0, false
		}
		return float64(t.RateMessages) * unit / float64(t.RateNs) * 1e9, true
	}))
	if !math.IsNaN(rate) {
		out.Rate = rate
	}
	return &out
}

// offeredBy tells whether the streams that of selects held the rate that was asked for.
func (d *armData) offeredBy(of func(*result.Slice) *result.Stream) Offered {
	var asked, sent, received int64
	for _, s := range d.slices {
		if t := of(s); t != nil {
			asked += t.AskedMessages
			sent += t.SentMessages
			received += t.RecvMessages
		}
	}
	if asked == 0 {
		return Offered{}
	}
	o := Offered{Sent: float64(sent) / float64(asked), Received: float64(received) / float64(asked)}
	o.Reached = o.Sent >= leastHeld && o.Received >= leastHeld
	return o
}

// paced makes the CPU time of a stream with a rate the row's figure. Without the rate there
// is none: the CPU time of less traffic is not that of the path.
func (a *analyzer) paced(r *Row, c result.Cell, d, base *armData) {
	o := d.offered()
	r.Offered = &o
	switch {
	case !o.Reached:
		r.CPU = nil
	case r.CPU != nil:
		r.Value = r.CPU.Cost
		if base != nil && base.offered().Reached {
			r.Ratio = r.CPU.Ratio
		}
	}
}

// values gives the figures of an arm by series.
func (a *analyzer) values(c result.Cell, d *armData) [][]float64 {
	if !c.Metric.IsCPU() {
		return d.values(c.Metric)
	}
	costs := d.costs(perUnit(c), 1)
	var out [][]float64
	for _, series := range slices.Sorted(maps.Keys(costs)) {
		out = append(out, []float64{costs[series]})
	}
	return out
}

// pair gives the log-ratios of d to base, by series.
func (a *analyzer) pair(c result.Cell, d, base *armData) [][]float64 {
	if !c.Metric.IsCPU() {
		return pair(d, base, valueOf(c.Metric))
	}
	if !d.offered().Reached || !base.offered().Reached {
		return nil
	}
	var out [][]float64
	for _, log := range logRatios(d.costs(perUnit(c), 1), base.costs(perUnit(c), 1)) {
		out = append(out, []float64{log})
	}
	return out
}
