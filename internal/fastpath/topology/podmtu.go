package topology

import (
	"github.com/venturi-net/venturi/internal/nlmsg"
	"golang.org/x/sys/unix"
)

// PodEnd is the pod's end of a veth pair, in the namespace of the pod.
type PodEnd struct {
	NSID  int // nsid of the pod's namespace, as the host's namespace knows it
	Index int // ifindex in the pod's namespace
	MTU   int // bytes
	// MAC is its address; zero if it has none. It is compared with what it was: the pod may have others
	// on top of it.
	MAC [macLen]byte
	// HasXDP: it has an XDP program. That would see packets from the host's end, and the fast path
	// bypasses it. A program at the host's end runs before everything else and is not affected.
	HasXDP bool
}

// newPodEnd parses the attributes of a device.
func newPodEnd(space, index int, attrs []byte) PodEnd {
	end := PodEnd{NSID: space, Index: index}
	for kind, value := range nlmsg.EachAttr(attrs) {
		switch kind {
		case unix.IFLA_MTU:
			end.MTU = int(nlmsg.NativeUint32(value))
		case unix.IFLA_ADDRESS:
			copy(end.MAC[:], value)
		case unix.IFLA_XDP:
			attached := nlmsg.FindIn(value, unix.IFLA_XDP_ATTACHED)
			end.HasXDP = len(attached) > 0 && attached[0] != 0
		}
	}
	return end
}

// podMTU returns the size of the largest IP packet that reaches a pod unfragmented. The host
// fragments larger packets where it routes them, or reports them as too large. A bridge drops them,
// or fragments them if it filters. The pod's end of a veth drops them.
func (r *reader) podMTU(p LocalPod) int {
	size := min(r.byIndex[p.Device].Attrs().MTU, r.byIndex[p.NeighDevice].Attrs().MTU, r.confMTU(p.NeighDevice, false))
	for m, mtu := range r.mtuRoutes {
		if m.mayLeadOver(p.NeighDevice) && m.to.Contains(p.Addr) {
			size = min(size, mtu)
		}
	}
	if p.PodEnd.MTU > 0 {
		size = min(size, p.PodEnd.MTU)
	}
	return size
}
