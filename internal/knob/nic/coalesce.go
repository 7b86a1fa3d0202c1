package nic

import "github.com/venturi-net/venturi/internal/knob"

// coalesce is how long a card waits for more packets before it interrupts.
var coalesce = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.coalesce",
		Title:    "How long a card waits for more packets before it interrupts",
		Values:   "settings of the driver, such as adaptive-rx=off,rx-usecs=8,tx-usecs=64, with the names of `ethtool -c`",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Latency, knob.CPU, knob.Throughput},
		Risk:     "short waits cost CPU time, and interrupts may starve other work",
		Needs:    "a driver that supports it; reading the knob lists its settings. Refused where single queues have other settings (ethtool -Q), as are nic.channels and nic.ring: those would be lost",
		Grade:    knob.GradeC,
		Evidence: "ENA's guide: adaptive off and 0 for latency; ESnet: adaptive on for throughput; a blog saw 120 to 90 microseconds on a ConnectX-6",
		Undo:     "the old times and modes are written back in one message",
	},
	Knob: fields{backend: "coalesce", trials: coalesceTrials},
}

// coalesceTrials are a ladder of fixed waits, and the driver's own choice.
func coalesceTrials(now, _ fieldSet) (trials []string) {
	fixed, chosen := "", ""
	for _, mode := range []string{"adaptive-rx", "adaptive-tx"} {
		if _, has := now[mode]; has {
			fixed, chosen = fixed+mode+"=off,", chosen+mode+"=on,"
		}
	}
	for _, wait := range []int{0, 2, 8, 50} {
		trials = append(trials, fixed+assign("rx-usecs", wait))
	}
	if chosen != "" {
		trials = append(trials, chosen[:len(chosen)-1])
	}
	return trials
}
