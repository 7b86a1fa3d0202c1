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

// RefreshNeighbour makes the kernel treat a neighbour as if it had sent a packet there: a
// stale entry is probed, and fails if there is no reply. Nothing else changes. The error
// wraps [host.ErrGone] if there is no such entry.
func RefreshNeighbour(n *netcfg.Namespace, of topology.Neighbour) error {
	err := n.Do(func() error {
		req := nl.NewNetlinkRequest(unix.RTM_NEWNEIGH, unix.NLM_F_ACK) // without NLM_F_CREATE
		req.AddData(&netlink.Ndmsg{Family: familyOf(of.Addr), Index: uint32(of.Device), Flags: netlink.NTF_USE})
		req.AddData(nl.NewRtAttr(netlink.NDA_DST, of.Addr.AsSlice()))
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		err = host.ErrGone
	}
	return n.Wrap("refresh neighbour "+of.Addr.String(), err)
}
