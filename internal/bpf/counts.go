package bpf

// Count says what became of packets, and why; the order is that of src/state.h.
type Count uint32

// The counts.
const (
	CarriedOut Count = iota
	CarriedIn
	SlowNoDaemon
	SlowNotIPv4
	SlowOptions
	SlowFragment
	SlowProtocol
	SlowTTL
	SlowFlags
	SlowUnknown
	SlowStale
	SlowSize
	SlowEncapsulated
	SlowChecksum
	SlowECN
	SlowSource
	Counts // how many there are
)

// String is what a person reads.
func (c Count) String() string { return countNames[c] }

var countNames = [Counts]string{
	CarriedOut:       "carried out",
	CarriedIn:        "carried in",
	SlowNoDaemon:     "slow: the daemon is gone",
	SlowNotIPv4:      "slow: not IPv4, or too short",
	SlowOptions:      "slow: IP options",
	SlowFragment:     "slow: a fragment",
	SlowProtocol:     "slow: neither TCP nor UDP",
	SlowTTL:          "slow: its TTL ends here",
	SlowFlags:        "slow: opens or ends a connection",
	SlowUnknown:      "slow: no flow is known",
	SlowStale:        "slow: rules, pod or peer have changed since it was learned",
	SlowSize:         "slow: larger than the way takes whole",
	SlowEncapsulated: "slow: has headers around it already",
	SlowChecksum:     "slow: its outer header has a checksum",
	SlowECN:          "slow: congestion was marked on the way",
	SlowSource:       "slow: not from where it should be",
}
