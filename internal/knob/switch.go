package knob

// switchKnobs are those of Open vSwitch and OVN.
func SwitchKnobs() []Entry {
	return append([]Entry{
		ovsThreads, ovsCache, ovsUserspace, ovsOffload, encapCsum, ovnLB,
	}, obsoleteSwitching()...)
}
