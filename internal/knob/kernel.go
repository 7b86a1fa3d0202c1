package knob

// kernelKnobs are those of the kernel's network stack.
func KernelKnobs() []Entry {
	return []Entry{
		busyPoll, budget, backlog, flowLimit, rfsTable,
		tcpMem, sockMem, udpMem, tcpNotsent, tcpIdle, tcpFastopen, tcpCC, listen,
		bpfJIT, ctSize, ctNotrack, nftFlowtable, bridgeNF, jitter, tunedProfile,
	}
}
