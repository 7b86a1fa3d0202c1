package kernel

import (
	"errors"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// UseNeighbour has the kernel do what it does when it sends a packet to a neighbour of
// the namespace: if it has not heard of it for a while, it asks whether it is still
// there, and gives it up if it is not. It changes nothing else. The error wraps
// [host.ErrGone] if the kernel does not know it any more.
func UseNeighbour(n *netcfg.Namespace, of topology.Neighbour) error {
	err := n.Do(func() error {
		req := nl.NewNetlinkRequest(unix.RTM_NEWNEIGH, unix.NLM_F_ACK) // one that is not there is not made
		req.AddData(&netlink.Ndmsg{Family: unix.AF_INET, Index: uint32(of.Device), Flags: netlink.NTF_USE})
		req.AddData(nl.NewRtAttr(netlink.NDA_DST, of.Addr.AsSlice()))
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		err = host.ErrGone
	}
	return n.Wrap("confirm neighbour "+of.Addr.String(), err)
}
