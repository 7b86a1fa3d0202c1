package knob

// deviceKnobs are those of network devices, physical and virtual.
func DeviceKnobs() []Entry {
	return []Entry{
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
