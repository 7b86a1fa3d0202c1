package knob

// hostKnobs are those of the machine's processors and interrupts.
func hostKnobs() []Entry { return nil }
