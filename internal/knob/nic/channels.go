package nic

import "github.com/venturi-net/venturi/internal/knob"

// channels is the queues of a card, each with an interrupt.
var channels = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.channels",
		Title:    "Queues of a device",
		Values:   "queues of each kind, such as combined=4, or rx=4,tx=4, or max",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Latency, knob.Packets, knob.CPU},
		Risk:     "packets are dropped while the queues are recreated; fewer than the receive hash table uses cannot be set",
		Needs:    "a device with several queues; for latency, one per core near the card; for CPU cost, the fewest that do not overflow",
		Grade:    knob.GradeC,
		Evidence: "the kernel's scaling.rst advises both, for those two aims; tuned and the OpenShift Node Tuning Operator can set it",
		Undo:     "the old numbers are written back, and what the driver forgot meanwhile: the hash table, queue masks, queueing disciplines",
	},
	Knob: fields{backend: "channel", largest: []string{"combined", "rx", "tx"}, trials: channelTrials},
}

// channelTrials are one of each, half of the most, and the most.
func channelTrials(_, most fieldSet) (trials []string) {
	for _, part := range []int{1 << 20, 2, 1} {
		var pairs []any
		for _, name := range []string{"combined", "rx", "tx"} {
			if limit := most.number(name); limit > 0 && (name == "combined" || most.number("combined") == 0) {
				pairs = append(pairs, name, max(1, limit/part))
			}
		}
		trials = append(trials, assign(pairs...))
	}
	return trials
}
