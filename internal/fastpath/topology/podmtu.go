package topology

import (
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// PodEnd is the pod's end of a veth pair, in the namespace of the pod.
type PodEnd struct {
	NSID   int // nsid of the pod's namespace, as the host's namespace knows it
	Index  int // ifindex in the pod's namespace
	MTU    int // bytes
	HasXDP bool
}

// readPodEnd reads the other end of a veth, in another namespace. It returns nil if the device is
// gone; a notification of that follows.
func readPodEnd(by sockets, space, index int) netlink.Link {
	message, err := readLink(by, index, nl.NewRtAttr(unix.IFLA_TARGET_NETNSID, nl.Uint32Attr(uint32(space))))
	if err != nil {
		return nil
	}
	own, err := netlink.LinkDeserialize(nil, message)
	if err != nil {
		return nil
	}
	return own
}

// hasXDP reports whether the pod's end of its link has an XDP program. That program would see
// packets from the host's end, and the fast path bypasses it. A program at the host's end runs
// before everything else and is not affected.
func hasXDP(own netlink.Link) bool {
	return own != nil && own.Attrs().Xdp != nil && own.Attrs().Xdp.Attached
}

// podMTU returns the size of the largest IP packet that reaches a pod unfragmented. The host
// fragments larger packets where it routes them, or reports them as too large. A bridge drops them,
// or fragments them if it filters. The pod's end of a veth drops them.
func (r *reader) podMTU(p LocalPod) int {
	size := min(r.byIndex[p.Device].Attrs().MTU, r.byIndex[p.NeighDevice].Attrs().MTU)
	for _, route := range r.mtuRoutes {
		if mayUse(route, p.NeighDevice, nil) && nlmsg.ToPrefix(route.Dst).Contains(p.Addr) {
			size = min(size, route.MTU)
		}
	}
	if p.PodEnd.MTU > 0 {
		size = min(size, p.PodEnd.MTU)
	}
	return size
}
