// Package nic has the knobs of network devices, physical and virtual.
package nic

import "github.com/venturi-net/venturi/internal/knob"

// Knobs are those of network devices, physical and virtual.
func Knobs() []knob.Entry {
	return []knob.Entry{
		ring,
		channels,
		coalesce,
		hashFields,
		hashTable,
		steering,
		seg,
		csum,
		gro,
		groHW,
		lro,
		tunnelSeg,
		tunnelCsum,
		vethGRO,
		udpForward,
		pause,
		privateFlags,
		nicMTU,
		nicQdisc,
		nicTxQueueLen,
		nicBigTCP,
		nicDeferIRQ,
		nicIRQSuspend,
		nicThreadedNAPI,
		netRPS,
		netRFS,
		netXPS,
	}
}
