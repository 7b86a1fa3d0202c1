package bpf

// Key is the name of a count in records and for programs. It must not change: reports of old
// records depend on it. It ends with the direction, which older records lack for slow
// packets.
func (c Count) Key() string {
	if c >= PerDirection {
		return countKeys[c-PerDirection] + "_in"
	}
	return countKeys[c] + "_out"
}

var countKeys = [PerDirection]string{
	CarriedOut:       "carried",
	SlowNoDaemon:     "slow_no_daemon",
	SlowNotIPv4:      "slow_not_ipv4",
	SlowOptions:      "slow_options",
	SlowFragment:     "slow_fragment",
	SlowProtocol:     "slow_protocol",
	SlowTTL:          "slow_ttl",
	SlowFlags:        "slow_flags",
	SlowUnknown:      "slow_unknown",
	SlowFull:         "slow_full",
	SlowStale:        "slow_stale",
	SlowSize:         "slow_size",
	SlowEncapsulated: "slow_encapsulated",
	SlowChecksum:     "slow_checksum",
	SlowECN:          "slow_ecn",
	SlowSource:       "slow_source",
	SlowUnproven:     "slow_unproven",
}
