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

// Remeasure asks the kernel how large packets to peers may be, and tells whether that
// is not what [ReadWays] had found.
func Remeasure(peers []PeerWay) (bool, error) {
	h, err := netlink.NewHandle(netlinkRoute)
	if err != nil {
		return false, fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	for _, p := range peers {
		if p.Tunnel == nil {
			continue // what the network beyond can take is the pods' own business
		}
		o := &netlink.RouteGetOptions{OifIndex: p.Tunnel.Below, SrcAddr: p.Tunnel.Source}
		routes, err := h.RouteGetWithOptions(p.Tunnel.Remote.AsSlice(), o)
		if err != nil || len(routes) != 1 || routes[0].MTU != p.RouteMTU {
			return true, nil
		}
	}
	return false, nil
}
