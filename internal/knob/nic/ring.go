package nic

import "github.com/venturi-net/venturi/internal/knob"

// ring is the packets that a card holds for the kernel, and the kernel for it.
var ring = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.ring",
		Title:    "Entries of a card's receive and transmit rings",
		Values:   "entries of each, such as rx=4096,tx=1024, or max for the largest of both",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Drops, knob.Throughput},
		Risk:     "the link goes down for a moment, for seconds on some cards; large rings do not fit the cache, and add latency",
		Needs:    "larger rings help only where counters of missed packets grow (rx_missed_errors, rx_fifo_errors, rx_no_buffer)",
		Grade:    knob.GradeD,
		Evidence: "from 256 to 4096 ended 425,000 overruns on igc (xunholy issue 4196), and Kube-OVN advises the largest; ESnet says that it no longer helps from kernel 6.11 on, and a larger ring adds latency (serverfault 1078532)",
		Undo:     "the old sizes are written back, and what the driver forgot meanwhile: channels, hashing, queue masks",
	},
	Knob: fields{backend: "ring", largest: []string{"rx", "tx"}, trials: ringTrials},
}

// ringTrials are half, double and the largest.
func ringTrials(now, most fieldSet) (trials []string) {
	for _, by := range []float64{0.5, 2, 1 << 20} {
		var pairs []any
		for _, name := range []string{"rx", "tx"} {
			if limit := most.number(name); limit > 0 {
				pairs = append(pairs, name, min(limit, max(64, int(by*float64(now.number(name))))))
			}
		}
		trials = append(trials, assign(pairs...))
	}
	return trials
}
