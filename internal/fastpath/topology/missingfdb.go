package topology

import (
	"net"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink"
)

// BridgeNeighbour is a neighbour on a bridge, and the bridge's own MAC, which ARP probes are sent
// from.
type BridgeNeighbour struct {
	Neighbour
	MAC       net.HardwareAddr
	BridgeMAC net.HardwareAddr // of the bridge
}

// missingFDB returns the neighbours on the pods' bridges that have no FDB entry: they have not sent
// anything yet, or not recently. Of a bridge with too many entries not all are known, so none is missing.
//
// Of IPv6 it returns none: they are not probed, and a bridge announces it when they speak.
func (r *reader) missingFDB(pods []string) (found []BridgeNeighbour) {
	if r.family == IPv6 {
		return nil
	}
	bridges := map[int]net.HardwareAddr{}
	for _, name := range pods {
		l, ok := r.byName[name]
		if !ok {
			continue
		}
		if bridge, ok := r.byIndex[l.Attrs().MasterIndex].(*netlink.Bridge); ok && IsUp(bridge) && r.crowdedReason(bridge) == "" {
			bridges[bridge.Index] = bridge.HardwareAddr
		}
	}
	type place struct {
		bridge int
		mac    string
	}
	placed := map[place]bool{}
	for _, e := range r.fdb {
		placed[place{e.MasterIndex, string(e.HardwareAddr)}] = true
	}
	for _, n := range r.arp {
		from, ok := bridges[n.LinkIndex]
		if !ok || len(n.HardwareAddr) != macLen || !isUsableState(n.State) || len(from) != macLen {
			continue
		}
		if !placed[place{n.LinkIndex, string(n.HardwareAddr)}] {
			found = append(found, BridgeNeighbour{Neighbour{n.LinkIndex, nlmsg.ToAddr(n.IP)}, n.HardwareAddr, from})
		}
	}
	return found
}
