package topology

import (
	"fmt"
	"net"
	"slices"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// readRoutes reads the routes of all tables. Policy rules select the table, and can do so by
// anything.
func (r *reader) readRoutes() error {
	all := &netlink.Route{Table: unix.RT_TABLE_UNSPEC}
	routes, err := nlmsg.Dump(func() ([]netlink.Route, error) {
		return r.h.RouteListFiltered(int(r.family.Number()), all, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	r.hostRoutes = map[Neighbour]bool{}
	for _, route := range routes {
		to := nlmsg.ToPrefix(route.Dst)
		if route.Tos != 0 {
			r.perPacket = fmt.Sprintf("the route to %v in table %d depends on the TOS", to, route.Table)
		}
		if gw := nlmsg.ToAddr(route.Gw); isOf(gw, r.family) {
			r.gateways = append(r.gateways, Neighbour{route.LinkIndex, gw})
		}
		if route.MTU > 0 {
			r.mtuRoutes = append(r.mtuRoutes, route)
		}
		if route.Table == unix.RT_TABLE_MAIN && route.Gw == nil && to.IsSingleIP() {
			r.hostRoutes[Neighbour{route.LinkIndex, to.Addr()}] = true
		}
	}
	if err := r.auditRoutes(); err != nil {
		return err
	}
	return r.auditPolicyRules()
}

// leastRouteMTU returns the smallest MTU of all routes over a device, in any table, but at most the
// device's own MTU. If a next hop is given, only its routes count.
func (r *reader) leastRouteMTU(device int, hop net.IP, least int) int {
	for _, route := range r.mtuRoutes {
		if mayUse(route, device, hop) {
			least = min(least, route.MTU)
		}
	}
	return least
}

// mayUse reports whether a route can lead over a device, and over a next hop if one is given. A
// route without either uses a next hop object, which may be anything.
func mayUse(route netlink.Route, device int, hop net.IP) bool {
	by := func(index int, gateway net.IP) bool {
		return index == device && (hop == nil || gateway == nil || hop.Equal(gateway))
	}
	if len(route.MultiPath) > 0 {
		return slices.ContainsFunc(route.MultiPath, func(n *netlink.NexthopInfo) bool { return by(n.LinkIndex, n.Gw) })
	}
	return route.LinkIndex == 0 || by(route.LinkIndex, route.Gw)
}
