package discover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// chooseGeneve finds the geneve devices with one UDP port, of which there is one to each peer, if more
// than so many routes lead by them.
func (n *node) chooseGeneve(p *Plan, best int) {
	routes, port := map[int]int{}, 0
	for _, l := range n.links {
		if g, ok := l.(*netlink.Geneve); ok && isGeneveToPeer(g) {
			routes[int(g.Dport)] += len(n.podRoutesBy(g.Index))
		}
	}
	for _, of := range slices.Sorted(maps.Keys(routes)) {
		if routes[of] > best {
			best, port = routes[of], of
		}
	}
	if port == 0 {
		return
	}
	p.Kind, p.Port, p.Tunnels = fastpath.Geneve, port, nil
	var first *netlink.Geneve
	for _, l := range n.links {
		g, ok := l.(*netlink.Geneve)
		if ok && isGeneveToPeer(g) && int(g.Dport) == port && len(n.podRoutesBy(g.Index)) > 0 {
			p.Tunnels, first = append(p.Tunnels, g.Name), cmp.Or(first, g)
		}
	}
	p.Tunnel, p.VNI = first.Name, n.commonVNI(p.Tunnels)
	p.Wire = n.name(cmp.Or(n.deviceTo(nlmsg.ToAddr(first.Remote)), n.wire()))
}

// isGeneveToPeer: it may lead to a peer. Of an external one, each packet says where it goes.
func isGeneveToPeer(g *netlink.Geneve) bool {
	return !g.FlowBased && topology.IsUp(g) && g.MasterIndex == 0
}

// commonVNI is the VNI of all of some geneve devices; 0: they have several.
func (n *node) commonVNI(devices []string) (vni int) {
	for _, l := range n.links {
		g, ok := l.(*netlink.Geneve)
		if !ok || !slices.Contains(devices, g.Name) {
			continue
		}
		if vni != 0 && vni != int(g.ID) {
			return 0
		}
		vni = int(g.ID)
	}
	return vni
}

// whyGeneveLeft says why a geneve device that leads to some networks is left alone.
func whyGeneveLeft(g *netlink.Geneve, p *Plan, to []string) string {
	switch {
	case g.FlowBased:
		return fmt.Sprintf("leads to %s by a geneve device that is external, which the fast path does not support", list(to))
	case p.Kind == fastpath.Geneve && int(g.Dport) != p.Port:
		return fmt.Sprintf("leads to %s by Geneve to UDP port %d: the fast path uses one port only, which is %d", list(to), g.Dport, p.Port)
	}
	return unusedRoutes(to, " by Geneve", "one wire or kind of tunnel", cmp.Or(p.Tunnel, p.Wire))
}
