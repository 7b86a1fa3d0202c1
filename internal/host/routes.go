package host

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Route is one IPv4 route of the main table.
type Route struct {
	Dst netip.Prefix
	Via netip.Addr // not valid for a route without a next hop
}

// Routes lists the IPv4 routes of the calling thread's namespace that a
// routing protocol installed, by its number in rtnetlink(7).
func Routes(protocol int) ([]Route, error) {
	h, err := netlink.NewHandle(netlinkRoute)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	filter := &netlink.Route{Protocol: netlink.RouteProtocol(protocol)}
	var found []netlink.Route
	for range dumpTries {
		if found, err = h.RouteListFiltered(netlink.FAMILY_V4, filter, netlink.RT_FILTER_PROTOCOL); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	routes := make([]Route, 0, len(found))
	for _, r := range found {
		routes = append(routes, Route{Dst: toPrefix(r.Dst), Via: toAddr(r.Gw)})
	}
	return routes, nil
}

// toPrefix reads a destination; none is that of a default route.
func toPrefix(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(toAddr(n.IP), bits)
}

func toAddr(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}
