package bpf

// Key is what records and programs call a count. It is a promise: reports of
// records that are years old look for it. It ends with the way that packets went, as
// those of slow packets did not always.
func (c Count) Key() string {
	if c >= In {
		return countKeys[c-In] + "_in"
	}
	return countKeys[c] + "_out"
}

var countKeys = [In]string{
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
