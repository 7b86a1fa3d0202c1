package topology

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// maxRoutes is how many routes of a version of IP there may be: twice as many as the Internet has.
const maxRoutes = 1 << 21

// EachRoute calls what begin returns with each route of a version of IP, in all tables: policy rules select the table,
// and can do so by anything. It begins anew when the routes have changed meanwhile. If there are too many, it returns
// a [TooManyError].
func EachRoute(family Family, begin func() (do func(Route) error)) error {
	return eachRoute(family, maxRoutes, begin)
}

func eachRoute(family Family, most int, begin func() (do func(Route) error)) error {
	request := &nl.RtMsg{RtMsg: unix.RtMsg{Family: family.Number()}}
	err := dumpFamily(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, request, func() func(message []byte) error {
		do, n := begin(), 0
		return func(message []byte) error {
			if len(message) > 0 && message[0] != family.Number() { // a kernel without this version lists others
				return nil
			}
			if n++; n > most {
				return TooManyError(fmt.Sprintf("this network namespace has more than %d %s routes", most, family))
			}
			return do(readRoute(message, family))
		}
	})
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	return nil
}

// readRoutes reads the routes of all tables, of which it keeps little: there may be a million.
func (r *reader) readRoutes() error {
	err := EachRoute(r.family, func() func(Route) error {
		r.routeIndex = newRouteIndex()
		var nexthops map[uint32]nexthopMessage
		return func(route Route) (err error) {
			if !route.Learned {
				r.addRoute(route)
			}
			if route.object != 0 && nexthops == nil {
				if nexthops, err = readNexthops(r.family); err != nil {
					return err
				}
			}
			r.auditRoute(route, nexthops)
			return nil
		}
	})
	if err != nil {
		return err
	}
	return r.auditPolicyRules()
}

func (r *reader) addRoute(route Route) {
	if route.TOS != 0 {
		r.perPacket = fmt.Sprintf("the route to %v in table %d depends on the TOS", route.To, route.Table)
	}
	for _, hop := range route.Hops {
		if isOf(hop.Gateway, r.family) {
			r.gateways[Neighbour{hop.Device, hop.Gateway}] = true
		}
		if route.Table == unix.RT_TABLE_MAIN && !hop.Gateway.IsValid() && route.To.IsSingleIP() {
			r.hostRoutes[Neighbour{hop.Device, route.To.Addr()}] = true
		}
	}
	if route.MTU > 0 {
		r.addMTU(route)
	}
}

// mtuRoute is what routes have in common of which only the least MTU matters.
type mtuRoute struct {
	device  int          // its ifindex; 0 may be any, as that of a next hop object
	gateway netip.Addr   // none may be any, as well
	to      netip.Prefix // only where pods may be: there may be a million
}

func (r *reader) addMTU(route Route) {
	hops := route.Hops
	if len(hops) == 0 {
		hops = []RouteHop{{}}
	}
	for _, hop := range hops {
		all := mtuRoute{hop.Device, hop.Gateway, route.To}
		if l, ok := r.byIndex[hop.Device]; ok && !IsPodLink(l) && unsupportedBridgeReason(l) != "" {
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
