package topology

import (
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// sockets are the netlink sockets for requests; nil opens one for each request.
type sockets map[int]*nl.SocketHandle

// readLink returns the kernel's message about a device of the calling thread's namespace, by
// ifindex. The attributes select what is returned, or the namespace to ask about instead.
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
