package topology

import (
	"net"
	"slices"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink"
)

const kindNetkit = "netkit"

// unsupportedReason says why the fast path must not bypass a pod's link; "" means that it may. The
// pod's end is zero if it is gone.
//
// A program on a netkit pair may decide anything. If the pair's policy drops packets that no program
// accepts, a bypass would let them through. Marks that a pod sets must not reach rules either: they
// belong to a packet, not to the flow.
func unsupportedReason(l netlink.Link, end PodEnd) string {
	nk, ok := l.(*netlink.Netkit)
	switch {
	case !ok && end.HasXDP:
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

// isL3 reports whether a device carries IP packets without MACs: the Ethernet header is all zeros
// in both directions.
func isL3(l netlink.Link) bool {
	nk, ok := l.(*netlink.Netkit)
	return ok && nk.Mode == netlink.NETKIT_MODE_L3
}

// podBehindL3 finds the pod behind such a device: the one address that is routed to it. A static
// neighbour entry is no proof, because the kernel would use its MAC, which is not the pod's.
func (r *reader) podBehindL3(l netlink.Link) (LocalPod, bool) {
	a := l.Attrs()
	none := make(net.HardwareAddr, macLen)
	pod := LocalPod{Device: a.Index, NeighDevice: a.Index, MAC: none, Gateway: none}
	for to := range r.hostRoutes {
		if to.Device != a.Index {
			continue
		}
		if pod.Addr.IsValid() {
			return LocalPod{}, false
		}
		pod.Addr = to.Addr
	}
	entered := slices.ContainsFunc(r.arp, func(n neighbourEntry) bool {
		return n.LinkIndex == a.Index && nlmsg.ToAddr(n.IP) == pod.Addr && n.State != netlink.NUD_NOARP
	})
	return pod, isOf(pod.Addr, r.family) && !entered
}
