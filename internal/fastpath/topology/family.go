package topology

import (
	"net/netip"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
)

// Family is a version of IP.
type Family = audit.Family

// The versions of IP.
const (
	IPv4 = audit.IPv4
	IPv6 = audit.IPv6
)

// isOf tells whether packets of a family may be sent to an address of a single machine.
func isOf(addr netip.Addr, family Family) bool {
	if family == IPv6 {
		return addr.Is6() && !addr.IsMulticast()
	}
	return addr.Is4()
}
