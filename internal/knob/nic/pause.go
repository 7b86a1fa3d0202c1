package nic

import "github.com/venturi-net/venturi/internal/knob"

// pause is flow control by Ethernet itself.
var pause = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.pause",
		Title:    "Ethernet pause frames (flow control)",
		Values:   "autoneg, rx and tx, each on or off, such as autoneg=off,rx=on,tx=on",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Drops},
		Risk:     "one slow receiver blocks others behind the same switch; the link may go down for a moment",
		Needs:    "a card, and a link partner with the same setting",
		Grade:    knob.GradeC,
		Evidence: "ESnet advises it for storage and 100G",
		Undo:     "the old settings are written back; with autoneg, Venturi waits until the two ends agree as before",
	},
	Knob: fields{backend: "pause", trials: func(fieldSet, fieldSet) []string {
		return []string{"autoneg=off,rx=on,tx=on", "autoneg=off,rx=off,tx=off"}
	}},
}
