package machine

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Neighbour is an IPv4 address on the link of a device.
type Neighbour struct {
	Device int // index
	Addr   netip.Addr
}

// StaleNeighbours are those of the calling thread's namespace that the kernel would
// send to, and ask again whether they are there as soon as it did. Where they change
// all the time, some may be missing.
func StaleNeighbours() (map[Neighbour]bool, error) {
	all, err := dump(func() ([]netlink.Neigh, error) { return netlink.NeighList(0, netlink.FAMILY_V4) })
	if err != nil && !errors.Is(err, ErrInterrupted) {
		return nil, fmt.Errorf("list neighbours: %w", err)
	}
	stale := map[Neighbour]bool{}
	for _, n := range all {
		if n.State&netlink.NUD_STALE != 0 {
			stale[Neighbour{n.LinkIndex, addrOf(n.IP)}] = true
		}
	}
	return stale, nil
}
