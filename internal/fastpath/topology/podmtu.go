package topology

import (
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// PodEnd is a pod's own end of a veth, in the namespace of the pod.
type PodEnd struct {
	NSID   int // number that the machine's namespace has for the pod's
	Index  int // of the device, there
	MTU    int // bytes
	HasXDP bool
}

// readPodEnd reads the other end of a veth, in another namespace; nil: it has gone since,
// and of that there is news to come.
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

// hasXDP tells whether a pod's own end of its link has an XDP program: it is for what
// the machine's end sends, and that is skipped. One at the machine's end runs ahead of
// everything else.
func hasXDP(own netlink.Link) bool {
	return own != nil && own.Attrs().Xdp != nil && own.Attrs().Xdp.Attached
}

// podMTU is the size of the largest IP packet that reaches a pod as it came. What is
// larger, the machine cuts where it routes it, or says that it is too large; its bridge
// drops it, or cuts it where it filters; and the pod's own end of a veth drops it.
func (r *reader) podMTU(p LocalPod) int {
	size := min(r.byIndex[p.Device].Attrs().MTU, r.byIndex[p.NeighDevice].Attrs().MTU)
	for _, route := range r.allRoutes {
		if route.MTU > 0 && mayUse(route, p.NeighDevice, nil) && nlmsg.ToPrefix(route.Dst).Contains(p.Addr) {
			size = min(size, route.MTU)
		}
	}
	if p.PodEnd.MTU > 0 {
		size = min(size, p.PodEnd.MTU)
	}
	return size
}
