package knob

// manifestKnobs are the settings of a cluster's network, in the files that
// somebody will apply to it.
func manifestKnobs() []Entry { return nil }
