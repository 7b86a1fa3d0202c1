package topology

import (
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// readLink returns the kernel's message about a device of the calling thread's namespace, by
// ifindex.
func readLink(index int) (message []byte, err error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	of := nl.NewIfInfomsg(unix.AF_UNSPEC)
	of.Index = int32(index)
	req.AddData(of)
	found, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return nil, fmt.Errorf("read device %d: %w", index, err)
	}
	if len(found) != 1 || len(found[0]) < unix.SizeofIfInfomsg {
		return nil, fmt.Errorf("read device %d: the kernel gives %d answers", index, len(found))
	}
	return found[0], nil
}

// linkIndex is the ifindex in the kernel's message about a device, which has a whole header.
func linkIndex(message []byte) int { return int(int32(nlmsg.NativeUint32(message[4:]))) }
