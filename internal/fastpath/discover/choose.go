package discover

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// choose finds what the fast path would follow: the vxlan device with the most routes, or else
// the geneve devices, the ipip device or the wire, by which more routes lead beyond the link.
func (n *node) choose() *Plan {
	p := &Plan{}
	if n.family == topology.IPv6 {
		n.chooseFor6(p)
		return p
	}
	n.chooseVXLAN(p, fastpath.VXLAN, 0)
	if p.Kind == "" {
		n.chooseWire(p)
	}
	return p
}

// chooseFor6 finds the wire, and the vxlan device over IPv6 if more routes lead by that.
func (n *node) chooseFor6(p *Plan) {
	wire := n.wire()
	if wire != 0 {
		p.Kind, p.Wire = fastpath.Routed6, n.name(wire)
	}
	n.chooseVXLAN(p, fastpath.VXLAN6, len(n.podRoutesBy(wire)))
}

// chooseVXLAN finds the vxlan device with the most routes, if they are more than some.
func (n *node) chooseVXLAN(p *Plan, kind string, best int) {
	for _, l := range n.links {
		tunnel, ok := l.(*netlink.Vxlan)
		if !ok || !topology.IsUp(l) || l.Attrs().MasterIndex != 0 || kind == fastpath.VXLAN6 && !n.isOverIPv6(tunnel) {
			continue
		}
		if routes := len(n.routesBy(l.Attrs().Index)); routes > best {
			best = routes
			p.Kind, p.Tunnel, p.VNI, p.Port = kind, tunnel.Name, tunnel.VxlanId, tunnel.Port
			p.Wire = n.name(n.underlay(tunnel))
		}
	}
}

// isOverIPv6 tells whether the outer headers of a vxlan device are of IPv6: by its own address, or else by
// those of its peers.
func (n *node) isOverIPv6(tunnel *netlink.Vxlan) bool {
	if from := nlmsg.ToAddr(tunnel.SrcAddr); from.IsValid() {
		return from.Is6()
	}
	return slices.ContainsFunc(n.fdb, func(e netlink.Neigh) bool { return e.LinkIndex == tunnel.Index && nlmsg.ToAddr(e.IP).Is6() })
}

// chooseWire finds the wire, and the ipip device or geneve devices if more routes lead by them than by
// next hops on the wire. Default routes do not count.
func (n *node) chooseWire(p *Plan) {
	wire := n.wire()
	if wire != 0 {
		p.Kind, p.Wire = fastpath.Routed, n.name(wire)
	}
	best := len(n.podRoutesBy(wire))
	for _, l := range n.links {
		tunnel, ok := l.(*netlink.Iptun)
		if !ok || !topology.IsUp(l) || l.Attrs().MasterIndex != 0 {
			continue
		}
		if toOne := tunnel.FlowBased || tunnel.Remote != nil && !tunnel.Remote.IsUnspecified(); toOne && best > 0 {
			continue // it is not supported, and what leads to those peers may be
		}
		if routes := n.podRoutesBy(tunnel.Index); len(routes) > best {
			best = len(routes)
			p.Kind, p.Tunnel, p.Wire = fastpath.IPIP, tunnel.Name, n.name(cmp.Or(int(tunnel.Link), n.deviceTo(routes[0].via), wire))
		}
	}
	n.chooseGeneve(p, best)
}

// podRoutesBy are the routes by a device that lead beyond its own link, but for default routes.
func (n *node) podRoutesBy(device int) []route {
	return slices.DeleteFunc(n.routesBy(device), route.isDefault)
}

// routesBy are the routes by a device that lead beyond its own link.
func (n *node) routesBy(device int) (routes []route) {
	for _, r := range n.routes {
		if r.device == device && r.via.IsValid() {
			routes = append(routes, r)
		}
	}
	return routes
}

// underlay is the device that carries the packets of a tunnel.
func (n *node) underlay(tunnel *netlink.Vxlan) int {
	if tunnel.VtepDevIndex != 0 {
		return tunnel.VtepDevIndex
	}
	for _, e := range n.fdb {
		if e.LinkIndex == tunnel.Index && e.IP != nil {
			if device := n.deviceTo(nlmsg.ToAddr(e.IP)); device != 0 {
				return device
			}
		}
	}
	return n.wire()
}

// deviceTo is the device of the most special route to an address; 0: there is none.
func (n *node) deviceTo(addr netip.Addr) (device int) {
	bits := -1
	for _, r := range n.routes {
		if r.dst.Contains(addr) && r.dst.Bits() > bits {
			device, bits = r.device, r.dst.Bits()
		}
	}
	return device
}

// wire is the device by which most next hops are reached, where a default route counts least;
// 0: there is none.
func (n *node) wire() (device int) {
	best := 0
	for _, l := range n.links {
		index, score := l.Attrs().Index, 0
		if !topology.IsUp(l) || n.leadsInside(l) || encapsulations[l.Type()] != "" {
			continue
		}
		for _, r := range n.routesBy(index) {
			if score += 2; r.isDefault() {
				score--
			}
		}
		if score > best {
			device, best = index, score
		}
	}
	return device
}

// besideTunnel says that peers are reached by the wire without the tunnel, as Calico does within a
// subnet; "": none are.
func (n *node) besideTunnel(wire int, p *Plan) string {
	var to []string
	for _, r := range n.podRoutesBy(wire) {
		to = append(to, r.dst.String())
	}
	if len(to) == 0 {
		return ""
	}
	return unusedRoutes(to, " without the tunnel", "the tunnel", p.Tunnel)
}

// unusedRoutes says that routes lead elsewhere than by what the fast path uses.
func unusedRoutes(to []string, how, uses, name string) string {
	return fmt.Sprintf("leads to %s%s: the fast path uses %s only, which is %s", list(to), how, uses, name)
}
