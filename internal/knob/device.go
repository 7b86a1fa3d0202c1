package knob

// deviceKnobs are those of network devices, physical and virtual.
func deviceKnobs() []Entry { return nil }
