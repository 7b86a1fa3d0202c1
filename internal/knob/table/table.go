// Package table lists all knobs, section by section.
package table

import (
	"fmt"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/cpu"
	"github.com/venturi-net/venturi/internal/knob/k8s"
	"github.com/venturi-net/venturi/internal/knob/nic"
	"github.com/venturi-net/venturi/internal/knob/stack"
	"github.com/venturi-net/venturi/internal/knob/vswitch"
	"github.com/venturi-net/venturi/internal/verr"
)

// Section is a part of the table.
type Section struct {
	Name    string       `json:"name"`
	Title   string       `json:"title"`
	Entries []knob.Entry `json:"-"`
}

// Sections lists the parts of the table, in its order.
func Sections() []Section {
	return []Section{
		{"host", "The host's processors and interrupts", cpu.Knobs()},
		{"device", "Network devices, physical and virtual", nic.Knobs()},
		{"kernel", "The kernel's network stack", stack.Knobs()},
		{"switch", "Open vSwitch and OVN", vswitch.Knobs()},
		{"manifest", "Manifests of a cluster's network", k8s.Knobs()},
	}
}

// All lists the knobs of all sections.
func All() (all []knob.Entry) {
	for _, s := range Sections() {
		all = append(all, s.Entries...)
	}
	return all
}

// Find gives a knob by its name. Error: there is none of that name (exit code 2),
// or it is obsolete (exit code 4), with what to do instead.
func Find(name string) (knob.Entry, error) {
	for _, e := range All() {
		if e.Name != name {
			continue
		}
		if e.Instead != "" {
			return e, verr.New(verr.Missing, "cannot use knob "+name, "it is obsolete: "+e.Title, e.Instead)
		}
		return e, nil
	}
	return knob.Entry{}, verr.New(verr.Usage, fmt.Sprintf("cannot use knob %q", name), "there is no knob of that name", "list them with: venturi knob ls")
}
