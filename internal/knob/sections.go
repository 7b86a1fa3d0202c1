package knob

// Section is a part of the table.
type Section struct {
	Name    string  `json:"name"`
	Title   string  `json:"title"`
	Entries []Entry `json:"-"`
}

// Sections lists the parts of the table, in its order.
func Sections() []Section {
	return []Section{
		{"host", "The host's processors and interrupts", hostKnobs()},
		{"device", "Network devices, physical and virtual", deviceKnobs()},
		{"kernel", "The kernel's network stack", kernelKnobs()},
		{"switch", "Open vSwitch and OVN", switchKnobs()},
		{"manifest", "Manifests of a cluster's network", manifestKnobs()},
	}
}
