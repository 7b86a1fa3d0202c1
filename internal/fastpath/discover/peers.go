package discover

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// peers judges each next hop to pods of other nodes.
func (n *node) peers(p *Plan, found topology.Topology) []PlannedPeer {
	peers := []PlannedPeer{}
	for _, l := range n.links {
		if !slices.Contains(p.outDevices(), l.Attrs().Name) {
			continue
		}
		device := l.Attrs().Index
		for _, hop := range n.nextHops(device) {
			peer := PlannedPeer{Addr: hop, Outlook: Carried}
			for _, r := range n.routesBy(device) {
				if r.via == hop {
					peer.Routes = append(peer.Routes, r.dst)
				}
			}
			n.judgePeer(&peer, p, l, found)
			peers = append(peers, peer)
		}
	}
	return peers
}

// outDevices are the devices that next hops are reached by: the tunnels, or the wire.
func (p *Plan) outDevices() []string {
	if len(p.Tunnels) > 0 {
		return p.Tunnels
	}
	return []string{cmp.Or(p.Tunnel, p.Wire)}
}

// nextHops are the gateways of the routes by a device. The default gateway counts only where
// there is no other: what goes there mostly leaves the cluster.
func (n *node) nextHops(device int) (hops []netip.Addr) {
	var last []netip.Addr
	for _, r := range n.routesBy(device) {
		to := &hops
		if r.isDefault() {
			to = &last
		}
		if !slices.Contains(*to, r.via) {
			*to = append(*to, r.via)
		}
	}
	if len(hops) == 0 {
		return last
	}
	return hops
}

// judgePeer finds the next hop in what would be carried, or says why it is not there.
func (n *node) judgePeer(peer *PlannedPeer, p *Plan, out netlink.Link, found topology.Topology) {
	hop, isIPIP, device, name := peer.Addr, p.Kind == fastpath.IPIP, out.Attrs().Index, out.Attrs().Name
	mac := n.macOf(hop, device)
	if p.Tunnel != "" && mac != nil {
		if remote := n.remoteOf(mac, out); remote.IsValid() {
			peer.Addr = remote
		}
	}
	leadsTo := func(h topology.NextHop) bool {
		return h.Device == device && (isIPIP && h.Encap != nil && h.Encap.Remote == hop || mac != nil && bytes.Equal(h.MAC, mac))
	}
	if p.Kind == fastpath.Geneve {
		peer.Device = name
	}
	if slices.ContainsFunc(found.NextHops, leadsTo) {
		return
	}
	for _, through := range []string{name, p.Wire} {
		if why := refusals(through, found.Refusals); why != "" {
			peer.Outlook, peer.Reason = Slow, through+" "+why
			return
		}
	}
	peer.Outlook = Waiting
	switch on := n.deviceTo(peer.Addr); {
	case mac == nil && !isIPIP:
		peer.Reason = fmt.Sprintf("the MAC address of next hop %v is not known yet; the first packet sent there resolves it", hop)
	case p.Tunnel == "":
		peer.Outlook, peer.Reason = Slow, fmt.Sprintf("next hop %v does not answer", hop)
	case peer.Addr == hop && !isIPIP:
		peer.Reason = fmt.Sprintf("%s has no forwarding entry for %v yet", name, mac)
	case p.Kind == fastpath.VXLAN6 && on == 0:
		peer.Reason = fmt.Sprintf("there is no route to %v", peer.Addr)
	case p.Kind != fastpath.VXLAN6 && !peer.Addr.Is4():
		peer.Outlook, peer.Reason = Slow, "its outer address is IPv6, which the fast path does not support"
	case on == 0:
		peer.Outlook, peer.Reason = Slow, fmt.Sprintf("there is no route to %v", peer.Addr)
	case p.Kind == fastpath.VXLAN6:
		peer.Reason = fmt.Sprintf("the route to %v is not known yet", peer.Addr)
	default:
		peer.Reason = fmt.Sprintf("the MAC address of %v on %s is not known yet; the first packet sent there resolves it", peer.Addr, n.name(on))
	}
}

// remoteOf is the outer address of what is behind a tunnel; zero: the tunnel does not know it.
func (n *node) remoteOf(mac net.HardwareAddr, tunnel netlink.Link) netip.Addr {
	if g, ok := tunnel.(*netlink.Geneve); ok {
		return nlmsg.ToAddr(g.Remote)
	}
	for _, e := range n.fdb {
		if e.LinkIndex == tunnel.Attrs().Index && e.IP != nil && bytes.Equal(e.HardwareAddr, mac) {
			return nlmsg.ToAddr(e.IP)
		}
	}
	return netip.Addr{}
}

// macOf is the MAC of a neighbour; nil: it is not known, or does not answer.
func (n *node) macOf(addr netip.Addr, device int) net.HardwareAddr {
	for _, e := range n.neighbours {
		if e.LinkIndex == device && nlmsg.ToAddr(e.IP) == addr && len(e.HardwareAddr) > 0 {
			return e.HardwareAddr
		}
	}
	return nil
}
