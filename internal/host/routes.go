package host

import (
	"fmt"
	"net/netip"

	"github.com/venturi-net/venturi/internal/nlmsg"
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
	found, err := nlmsg.Dump(func() ([]netlink.Route, error) {
		return h.RouteListFiltered(netlink.FAMILY_V4, filter, netlink.RT_FILTER_PROTOCOL)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	routes := make([]Route, 0, len(found))
	for _, r := range found {
		routes = append(routes, Route{Dst: nlmsg.ToPrefix(r.Dst), Via: nlmsg.ToAddr(r.Gw)})
	}
	return routes, nil
}
