package topology

import (
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// sockets are those that requests to the kernel go by; nil: by one of their own, each.
type sockets map[int]*nl.SocketHandle

// readLink gives what the kernel tells of a device of the calling thread's namespace,
// by its index; attributes say what is to be told, or of which namespace else.
func readLink(by sockets, index int, how ...*nl.RtAttr) (message []byte, err error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	req.Sockets = by
	of := nl.NewIfInfomsg(unix.AF_UNSPEC)
	of.Index = int32(index)
	req.AddData(of)
	for _, a := range how {
		req.AddData(a)
	}
	found, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return nil, fmt.Errorf("read device %d: %w", index, err)
	}
	if len(found) != 1 || len(found[0]) < unix.SizeofIfInfomsg {
		return nil, fmt.Errorf("read device %d: the kernel gives %d answers", index, len(found))
	}
	return found[0], nil
}
