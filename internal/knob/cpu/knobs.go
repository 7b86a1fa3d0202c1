// Package cpu has the knobs of the machine's processors and interrupts.
package cpu

import "github.com/venturi-net/venturi/internal/knob"

// Knobs are those of the machine's processors and interrupts.
func Knobs() []knob.Entry {
	return []knob.Entry{
		cpuGovernor,
		cpuEPP,
		cpuEPB,
		cpuMinPerf,
		cpuBoost,
		cpuResumeLatency,
		cpuDMALatency,
		cpuIdleDisable,
		cpuSMT,
		irqBalance,
		irqAffinity,
		vmTHP,
		numaPlace,
		bootCmdline,
	}
}
