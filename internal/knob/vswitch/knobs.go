// Package vswitch has the knobs of Open vSwitch and OVN.
package vswitch

import "github.com/venturi-net/venturi/internal/knob"

// Knobs are those of Open vSwitch and OVN.
func Knobs() []knob.Entry {
	return append([]knob.Entry{
		ovsThreads, ovsCache, ovsUserspace, ovsOffload, encapCsum, ovnLB,
	}, obsoleteSwitching()...)
}
