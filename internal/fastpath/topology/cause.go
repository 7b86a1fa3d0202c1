package topology

import (
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Cause says in a word, for people, what kind of change has ended what the programs have learned.
type Cause string

// Causes that the kernel announces.
const (
	Rules      Cause = "rules"      // of nftables
	IPsec      Cause = "ipsec"      // policies
	Routes     Cause = "routes"     // policy rules and next hops included
	Addresses  Cause = "addresses"  // of this host
	Neighbours Cause = "neighbours" // in use
	Devices    Cause = "devices"    // by what rules and bridges go by
	Sysctl     Cause = "sysctl"     // forwarding and the like
	LostEvents Cause = "lost"       // announcements, so anything may have changed
)

// causes are those of messages about devices, addresses and routes.
var causes = map[netlink.HeaderType]Cause{
	unix.RTM_NEWLINK: Devices, unix.RTM_DELLINK: Devices,
	unix.RTM_NEWADDR: Addresses, unix.RTM_DELADDR: Addresses,
	unix.RTM_NEWROUTE: Routes, unix.RTM_DELROUTE: Routes, unix.RTM_NEWRULE: Routes, unix.RTM_DELRULE: Routes,
	unix.RTM_NEWNEXTHOP: Routes, unix.RTM_DELNEXTHOP: Routes, unix.RTM_NEWNEXTHOPBUCKET: Routes, unix.RTM_DELNEXTHOPBUCKET: Routes,
	unix.RTM_NEWNETCONF: Sysctl, unix.RTM_DELNETCONF: Sysctl,
}
