package topology

import (
	"net"
	"slices"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink"
)

const kindNetkit = "netkit"

// unsupportedReason says why packets of a pod must not be carried past its link, of whose other end
// is known what [ownEnd] tells; "": they may.
//
// On a netkit pair a program decides whatever it decides, so that one that drops what
// no program lets through would drop nothing any more. And the marks that a pod sets
// must not reach rules: they would be the packet's and not the flow's.
func unsupportedReason(l, own netlink.Link) string {
	nk, ok := l.(*netlink.Netkit)
	switch {
	case !ok && hasXDP(own):
		return "leads to a device with an XDP program"
	case !ok:
		return ""
	case !nk.IsPrimary():
		return "is not the primary device of its pair"
	case nk.Policy != netlink.NETKIT_POLICY_FORWARD || nk.PeerPolicy != netlink.NETKIT_POLICY_FORWARD:
		return "drops what no program lets through"
	case nk.SupportsScrub() && (nk.Scrub == netlink.NETKIT_SCRUB_NONE || nk.PeerScrub == netlink.NETKIT_SCRUB_NONE):
		return "leaves marks on packets that pass it"
	}
	return ""
}

// isL3 tells whether a device carries IP packets without MACs: what is in front of
// them is all zeros, both ways.
func isL3(l netlink.Link) bool {
	nk, ok := l.(*netlink.Netkit)
	return ok && nk.Mode == netlink.NETKIT_MODE_L3
}

// podBehindL3 finds the pod behind such a device: the one address that is routed to
// it. A neighbour that somebody has entered would be sent to by its MAC, which is not
// the pod's.
func (r *reader) podBehindL3(l netlink.Link) (LocalPod, bool) {
	a := l.Attrs()
	none := make(net.HardwareAddr, macLen)
	pod := LocalPod{Device: a.Index, NeighDevice: a.Index, MAC: none, Gateway: none}
	for _, route := range r.mainRoutes {
		to := nlmsg.ToPrefix(route.Dst)
		if route.LinkIndex != a.Index || route.Gw != nil || !to.IsSingleIP() || to.Addr() == pod.Addr {
			continue
		}
		if pod.Addr.IsValid() {
			return LocalPod{}, false
		}
		pod.Addr = to.Addr()
	}
	entered := slices.ContainsFunc(r.arp, func(n neighbourEntry) bool {
		return n.LinkIndex == a.Index && nlmsg.ToAddr(n.IP) == pod.Addr && n.State != netlink.NUD_NOARP
	})
	return pod, pod.Addr.Is4() && !entered
}
