package machine

import (
	"os"
	"path/filepath"
)

// LegacyBridgeTables lists the tables of the ebtables that do not use nftables which
// the kernel has loaded, by its files in a folder such as /sys. Whether a namespace
// has such a table cannot be found out without making it.
func LegacyBridgeTables(sys string) (names []string) {
	for _, name := range []string{"broute", "nat", "filter"} {
		if _, err := os.Stat(filepath.Join(sys, "module", "ebtable_"+name)); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// silentSettings are those of a namespace that decide what becomes of packets, and of
// whose changes the kernel tells nobody.
var silentSettings = []string{"bridge/bridge-nf-call-iptables", "bridge/bridge-nf-filter-vlan-tagged", "ipv4/ip_default_ttl", "ipv4/ip_forward_use_pmtu"}

// SilentSettings reads them, in the calling thread's namespace; one that there is not
// is empty.
func SilentSettings() []string {
	values := make([]string, len(silentSettings))
	for i, name := range silentSettings {
		text, _ := os.ReadFile(filepath.Join("/proc/sys/net", name))
		values[i] = string(text)
	}
	return values
}
