package host

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TrackedUDP counts the connections that the calling thread's namespace tracks
// over IPv4 to UDP ports. It reads the whole table, and takes privileges over
// the namespace.
func TrackedUDP(ports map[int]bool) (int, error) {
	h, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	flows, err := h.ConntrackTableList(netlink.ConntrackTable, netlink.FAMILY_V4)
	if err != nil {
		return 0, fmt.Errorf("dump conntrack: %w", err)
	}
	n := 0
	for _, f := range flows {
		if f.Forward.Protocol == unix.IPPROTO_UDP && ports[int(f.Forward.DstPort)] {
			n++
		}
	}
	return n, nil
}
