package knob

import "slices"

// Table lists all knobs, by section: the host's, those of network devices, the
// kernel's network stack, of Open vSwitch and OVN, and of what a cluster's
// network is configured by.
func Table() []Entry {
	return slices.Concat(hostKnobs(), deviceKnobs(), kernelKnobs(), switchKnobs(), manifestKnobs())
}
