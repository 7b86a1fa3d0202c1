package topology

import (
	"cmp"
	"fmt"
	"net"
	"slices"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// maxRoutes is how many routes of a version of IP there may be: twice as many as the Internet has.
const maxRoutes = 1 << 21

// EachRoute calls what begin returns with each route of a version of IP, in all tables: policy rules select the table,
// and can do so by anything. It begins anew when the routes have changed meanwhile. If there are too many, it returns
// a [TooManyError]. The handle is of the namespace.
func EachRoute(h *netlink.Handle, family Family, begin func() (do func(netlink.Route))) error {
	return eachRoute(h, family, maxRoutes, begin)
}

func eachRoute(h *netlink.Handle, family Family, most int, begin func() (do func(netlink.Route))) error {
	all := &netlink.Route{Table: unix.RT_TABLE_UNSPEC}
	_, err := nlmsg.Dump(func() (none []netlink.Route, err error) {
		do, n := begin(), 0
		failed := h.RouteListFilteredIter(int(family.Number()), all, netlink.RT_FILTER_TABLE, func(route netlink.Route) (more bool) {
			if n++; n > most {
				err = TooManyError(fmt.Sprintf("this network namespace has more than %d %s routes", most, family))
				return false
			}
			do(route)
			return true
		})
		return none, cmp.Or(err, failed)
	})
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	return nil
}

// readRoutes reads the routes of all tables, of which it keeps little: there may be a million.
func (r *reader) readRoutes() error {
	err := EachRoute(r.h, r.family, func() func(netlink.Route) {
		r.perPacket, r.gateways, r.mtuRoutes, r.hostRoutes = "", map[Neighbour]bool{}, nil, map[Neighbour]bool{}
		return r.addRoute
	})
	if err != nil {
		return err
	}
	if err := r.auditRoutes(); err != nil {
		return err
	}
	return r.auditPolicyRules()
}

func (r *reader) addRoute(route netlink.Route) {
	to := nlmsg.ToPrefix(route.Dst)
	if route.Tos != 0 {
		r.perPacket = fmt.Sprintf("the route to %v in table %d depends on the TOS", to, route.Table)
	}
	if gw := nlmsg.ToAddr(route.Gw); isOf(gw, r.family) {
		r.gateways[Neighbour{route.LinkIndex, gw}] = true
	}
	if route.MTU > 0 {
		r.mtuRoutes = append(r.mtuRoutes, route)
	}
	if route.Table == unix.RT_TABLE_MAIN && route.Gw == nil && to.IsSingleIP() {
		r.hostRoutes[Neighbour{route.LinkIndex, to.Addr()}] = true
	}
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
