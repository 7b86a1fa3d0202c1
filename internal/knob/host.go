package knob

// hostKnobs are those of the machine's processors and interrupts.
func HostKnobs() []Entry {
	return []Entry{
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
