package topology

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"

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
		r.perPacket, r.gateways, r.mtuRoutes, r.hostRoutes = "", map[Neighbour]bool{}, map[mtuRoute]int{}, map[Neighbour]bool{}
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
		r.addMTU(route, to)
	}
	if route.Table == unix.RT_TABLE_MAIN && route.Gw == nil && to.IsSingleIP() {
		r.hostRoutes[Neighbour{route.LinkIndex, to.Addr()}] = true
	}
}

// mtuRoute is what routes have in common of which only the least MTU matters.
type mtuRoute struct {
	device  int          // its ifindex; 0 may be any, as that of a next hop object
	gateway netip.Addr   // none may be any, as well
	to      netip.Prefix // only where pods may be: there may be a million
}

func (r *reader) addMTU(route netlink.Route, to netip.Prefix) {
	hops := route.MultiPath
	if len(hops) == 0 {
		hops = []*netlink.NexthopInfo{{LinkIndex: route.LinkIndex, Gw: route.Gw}}
	}
	for _, hop := range hops {
		all := mtuRoute{hop.LinkIndex, nlmsg.ToAddr(hop.Gw), to}
		if l, ok := r.byIndex[hop.LinkIndex]; ok && !IsPodLink(l) && unsupportedBridgeReason(l) != "" {
			all.to = netip.Prefix{}
		}
		r.mtuRoutes[all] = min(route.MTU, cmp.Or(r.mtuRoutes[all], route.MTU))
	}
}

// leastRouteMTU returns the least MTU of all routes over a device, or over a next hop there, and at most least.
func (r *reader) leastRouteMTU(device int, hop net.IP, least int) int {
	for m, mtu := range r.mtuRoutes {
		if m.mayLeadOver(device) && (hop == nil || !m.gateway.IsValid() || m.gateway == nlmsg.ToAddr(hop)) {
			least = min(least, mtu)
		}
	}
	return least
}

func (m mtuRoute) mayLeadOver(device int) bool { return m.device == 0 || m.device == device }
