package knob

// coalesce is how long a card waits for more packets before it interrupts.
var coalesce = Entry{
	Facts: Facts{
		Name:     "nic.coalesce",
		Title:    "How long a card waits for more packets before it interrupts",
		Values:   "what the driver has, such as adaptive-rx=off,rx-usecs=8,tx-usecs=64, with the names of `ethtool -c`",
		Scope:    ScopeDevice,
		Helps:    []Effect{Latency, CPU, Throughput},
		Risk:     "short waits cost processor time, and may starve other work by interrupts",
		Needs:    "a card whose driver can; which of the settings it has, reading tells. It is refused where single queues were told to wait otherwise (ethtool -Q), as are nic.channels and nic.ring: that would be lost",
		Grade:    GradeC,
		Evidence: "ENA's guide: adaptive off and 0 for latency; ESnet: adaptive on for throughput; a blog saw 120 to 90 microseconds on a ConnectX-6",
		Undo:     "the old times and modes are written back in one message",
	},
	Knob: fields{store: "coalesce", trials: coalesceTrials},
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
