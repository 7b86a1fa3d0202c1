package bpf

// Count is an outcome of packets, with its reason and direction. The order is that of
// src/state.h.
type Count uint32

// Outcomes of packets that pods send.
const (
	CarriedOut Count = iota
	SlowNoDaemon
	SlowNotIPv4
	SlowOptions
	SlowFragment
	SlowProtocol
	SlowTTL
	SlowFlags
	SlowUnknown
	SlowFull
	SlowStale
	SlowSize
	SlowEncapsulated
	SlowChecksum
	SlowECN
	SlowSource
	SlowUnproven
	PerDirection // the number of outcomes, and the offset of those of packets on their way into a pod
)

const (
	CarriedIn = PerDirection + CarriedOut
	Counts    = 2 * PerDirection // the number of counters
)

// String is what a person reads.
func (c Count) String() string {
	if c >= PerDirection {
		return countNames[c-PerDirection] + " (into a pod)"
	}
	return countNames[c] + " (out of a pod)"
}

var countNames = [PerDirection]string{
	CarriedOut:       "carried",
	SlowNoDaemon:     "slow: the daemon is gone",
	SlowNotIPv4:      "slow: not IPv4, or too short",
	SlowOptions:      "slow: options, of IP or of the tunnel",
	SlowFragment:     "slow: a fragment",
	SlowProtocol:     "slow: neither TCP nor UDP",
	SlowTTL:          "slow: its TTL ends here",
	SlowFlags:        "slow: opens or ends a connection",
	SlowUnknown:      "slow: no flow is known",
	SlowFull:         "slow: no room in the table of flows",
	SlowStale:        "slow: rules, pod or peer have changed since it was learned",
	SlowSize:         "slow: larger than the way takes whole",
	SlowEncapsulated: "slow: has headers around it already",
	SlowChecksum:     "slow: its outer header has a checksum",
	SlowECN:          "slow: congestion was marked on the way",
	SlowSource:       "slow: not from where it should be",
	SlowUnproven:     "slow: waits for an answer, or to be forwarded this way",
}
