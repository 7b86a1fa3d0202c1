// Package stack has the knobs of the kernel's network stack.
package stack

import "github.com/venturi-net/venturi/internal/knob"

// Knobs are those of the kernel's network stack.
func Knobs() []knob.Entry {
	return []knob.Entry{
		busyPoll, budget, backlog, flowLimit, RFSTable,
		tcpMem, sockMem, udpMem, tcpNotsent, tcpIdle, tcpFastopen, tcpCC, listen,
		bpfJIT, ctSize, ctNotrack, nftFlowtable, bridgeNF, jitter, tunedProfile,
	}
}
