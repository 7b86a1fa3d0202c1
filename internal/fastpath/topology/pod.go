package topology

import (
	"cmp"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// pod finds the single address behind a pod's link. For a bridge port, that is the bridge's
// neighbour with a MAC behind this port; for any other device, the address that is routed to it.
func (r *reader) pod(name string) (LocalPod, bool) {
	l, ok := r.byName[name]
	if !ok || !IsPodLink(l) || !IsUp(l) {
		return LocalPod{}, false
	}
	a := l.Attrs()
	end, why := r.podEnd(l)
	if why = cmp.Or(why, unsupportedReason(l, end), prefixed("has ", r.linkReasons[a.Index]), r.gaps.reason(a.Index), r.uncertainDevices[a.Index]); why != "" {
		if end.HasXDP {
			r.withXDP = append(r.withXDP, LocalPod{PodEnd: end})
		}
		r.refuse(l, why)
		return LocalPod{}, false
	}
	if isL3(l) {
		return r.podBehindL3(l)
	}
	on, gateway := a.Index, a.HardwareAddr
	neighbours := r.routedNeighbours
	if bridge, ok := r.byIndex[a.MasterIndex]; ok {
		b := bridge.Attrs()
		on, gateway, why = b.Index, b.HardwareAddr, r.bridgeReason(bridge)
		neighbours = func(port int) []neighbourEntry { return r.bridgedNeighbours(port, b.Index) }
	}
	if why == "" && len(gateway) != macLen {
		why = "has no MAC address"
	}
	if why != "" {
		r.refuse(l, why)
		return LocalPod{}, false
	}
	pod, found := LocalPod{Device: a.Index, NeighDevice: on, Gateway: gateway, PodEnd: end}, 0
	for _, n := range neighbours(a.Index) {
		if why := cmp.Or(n.unknownAttr, r.unknownFDBAttr(n.HardwareAddr, a.Index)); why != "" {
			r.refuse(l, "its pod has "+why)
			return LocalPod{}, false
		}
		pod.Addr, pod.MAC = nlmsg.ToAddr(n.IP), n.HardwareAddr
		found++
	}
	return pod, found == 1
}

// podEnd reads the pod's end of a link, or says why it cannot.
func (r *reader) podEnd(l netlink.Link) (end PodEnd, why string) {
	if l.Type() == kindNetkit {
		return end, ""
	}
	a := l.Attrs()
	end, err := r.querier.podEnd(a.NetNsID, a.ParentIndex) // none if the end is gone: then a notification follows
	if err != nil {
		return PodEnd{}, fmt.Sprintf("its end in the pod cannot be read (%v)", err)
	}
	return end, ""
}

// bridgeReason says why pods at a bridge are refused; "": they are not.
func (r *reader) bridgeReason(bridge netlink.Link) string {
	b := bridge.Attrs()
	why := cmp.Or(r.masterReason(bridge), r.crowdedReason(bridge), r.unparsed[b.Index], prefixed("has ", r.linkReasons[b.Index]))
	return cmp.Or(unsupportedBridgeReason(bridge), prefixed(b.Name+" ", why), r.uncertainDevices[b.Index])
}

// prefixed is a reason with a word before it; "": there is no reason.
func prefixed(word, why string) string {
	if why == "" {
		return ""
	}
	return word + why
}

// routedNeighbours returns the neighbours on a device whose most specific route leads there,
// without a gateway.
func (r *reader) routedNeighbours(device int) (found []neighbourEntry) {
	for _, n := range r.arpOf[device] {
		if r.hostRoutes[Neighbour{device, nlmsg.ToAddr(n.IP)}] {
			found = append(found, n)
		}
	}
	return found
}

// bridgedNeighbours returns the neighbours on a bridge that have an FDB entry behind a port.
func (r *reader) bridgedNeighbours(port, bridge int) (found []neighbourEntry) {
	seen := map[string]bool{} // a MAC may have an entry for each VLAN
	for _, e := range r.fdbOf[port] {
		if mac := string(e.HardwareAddr); !seen[mac] {
			seen[mac] = true
			for _, n := range r.arpByMAC[deviceMAC{bridge, mac}] {
				if !nlmsg.ToAddr(n.IP).IsLinkLocalUnicast() || r.family == IPv4 { // every pod has one of IPv6 besides
					found = append(found, n)
				}
			}
		}
	}
	return found
}
