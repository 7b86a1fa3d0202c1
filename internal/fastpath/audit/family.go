package audit

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// Family is a version of IP. Each has rules, routes and neighbours of its own.
type Family uint8

// The versions of IP.
const (
	IPv4 Family = iota
	IPv6
)

// Number is that of the family in netlink, and of its rules: AF_INET6 and NFPROTO_IPV6 are the same.
func (f Family) Number() byte {
	if f == IPv6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

func (f Family) String() string {
	if f == IPv6 {
		return "IPv6"
	}
	return "IPv4"
}

// Unspecified is the address of its default routes.
func (f Family) Unspecified() netip.Addr {
	if f == IPv6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// etherType is that of its packets in frames.
func (f Family) etherType() int {
	if f == IPv6 {
		return unix.ETH_P_IPV6
	}
	return unix.ETH_P_IP
}

// otherTables are the families of tables whose rules its packets do not meet.
func (f Family) otherTables() []string {
	if f == IPv6 {
		return []string{"ip", "arp"}
	}
	return []string{"ip6", "arp"}
}

// header is where the fields of its header are that are equal for all packets of a flow.
type header struct {
	protocol  int // offset, bytes
	addresses int // offset of the source, which the destination follows
	length    int // of both
}

func (f Family) header() header {
	if f == IPv6 {
		return header{protocol: 6, addresses: 8, length: 32}
	}
	return header{protocol: 9, addresses: 12, length: 8}
}
