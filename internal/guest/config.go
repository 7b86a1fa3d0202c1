package guest

import "net/netip"

// Neighbour is an entry of the neighbour table that never expires.
type Neighbour struct {
	Addr netip.Addr
	MAC  string
}
