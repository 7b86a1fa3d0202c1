package knob

// switchKnobs are those of Open vSwitch and OVN.
func switchKnobs() []Entry {
	return nil
}
