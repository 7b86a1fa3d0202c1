package topology

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// vxlan6Overhead is what VXLAN over IPv6 adds: IPv6, UDP, VXLAN, and Ethernet.
const vxlan6Overhead = 70

// vxlan6NextHops returns the next hops of IPv6 behind a vxlan device over IPv6. That device adds and removes
// the outer headers of carried packets as well: to the programs it is the wire. The network below it sees the
// same of carried packets as of others, so only what reads the marks that those lack matters there.
func (r *reader) vxlan6NextHops(tunnel *netlink.Vxlan) (peers []NextHop, err error) {
	a := tunnel.Attrs()
	_, perPacket, err := readVXLANHeader(a.Index)
	if ok, err := r.acceptTunnel(tunnel, reasonWith(perPacketHeaders, perPacket), err, r.notRouter(a.Name), r.bySourcePort, noMAC(tunnel)); !ok {
		return nil, err
	}
	wire, ok := r.byIndex[tunnel.VtepDevIndex]
	if !ok {
		r.refuse(tunnel, "is not bound to a device (dev): what its packets pass could change with each route")
		return nil, nil
	}
	if !IsUp(wire) {
		return nil, nil
	}
	if why := r.unprovenWire(wire); why != "" {
		r.refuse(wire, why)
		return nil, nil
	}
	entries := r.entriesOf(a.Index)
	for _, n := range r.arpOf[a.Index] {
		entry, known := entries[string(n.HardwareAddr)]
		if !known {
			continue // packets there are flooded
		}
		switch {
		case n.unknownAttr != "":
			r.refuse(tunnel, fmt.Sprintf("its neighbour %v has %s", n.IP, n.unknownAttr))
			continue
		case entry.unknownAttr != "":
			r.refuse(tunnel, fmt.Sprintf("its entry for %v has %s", n.HardwareAddr, entry.unknownAttr))
			continue
		}
		peer := NextHop{
			Device: a.Index, MAC: n.HardwareAddr, WireDevice: a.Index, SrcMAC: a.HardwareAddr, DstMAC: n.HardwareAddr, Addr: nlmsg.ToAddr(n.IP),
			Encap: &Encap{ByDevice: true, Remote: nlmsg.ToAddr(entry.IP), Port: tunnel.Port, VNI: tunnel.VxlanId, BoundAddr: tunnel.SrcAddr},
		}
		if r.resolveUnderlay6(&peer, tunnel, wire) {
			peers = append(peers, peer)
		}
	}
	return peers, nil
}

// entriesOf returns a tunnel's forwarding entries to single hosts, by MAC.
func (r *reader) entriesOf(tunnel int) map[string]neighbourEntry {
	entries := map[string]neighbourEntry{}
	for _, n := range r.fdb {
		if n.LinkIndex == tunnel && len(n.HardwareAddr) == macLen && n.MasterIndex == 0 && n.IP != nil && !isFlood(n.HardwareAddr) {
			entries[string(n.HardwareAddr)] = n
		}
	}
	return entries
}

// resolveUnderlay6 resolves the route of a tunnel's outer packets, which must leave by the wire that the tunnel
// stands on, and finds how large packets may be in them.
func (r *reader) resolveUnderlay6(p *NextHop, tunnel, wire netlink.Link) bool {
	a, lower, remote := tunnel.Attrs(), wire.Attrs(), p.Encap.Remote
	if !isOf(remote, IPv6) {
		r.refuse(tunnel, fmt.Sprintf("its peer %v is not reached over IPv6", remote))
		return false
	}
	route, err := r.querier.routeOf(p.Encap)
	by, known := r.byIndex[route.device]
	if err != nil || !known {
		return false // there is no route at present
	}
	if by != wire {
		r.refuse(tunnel, fmt.Sprintf("its peer %v is reached by %s, and not by %s, which it is bound to", remote, by.Attrs().Name, lower.Name))
		return false
	}
	switch single, err := r.querier.hasOneHop(p.Encap); {
	case err != nil:
		return false
	case !single:
		r.refuse(tunnel, fmt.Sprintf("the route to its peer %v has several next hops", remote))
		return false
	}
	p.RouteMTU = route.mtu
	least := r.leastRouteMTU(lower.Index, nil, min(lower.MTU, r.confMTU(lower.Index, true)))
	if p.RouteMTU > 0 {
		least = min(least, p.RouteMTU)
	}
	p.MTU = min(r.leastRouteMTU(a.Index, nil, a.MTU), r.confMTU(a.Index, true), least-vxlan6Overhead)
	return true
}
