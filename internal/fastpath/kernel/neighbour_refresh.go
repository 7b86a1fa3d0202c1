package kernel

import (
	"encoding/binary"
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
//
// One that somebody has made permanent, or that the kernel probes by itself, is left alone: the same request makes
// kernels since 5.16 forget that, and the MAC with it. They also forget who has learned it, unless that is said anew.
func RefreshNeighbour(n *netcfg.Namespace, of topology.Neighbour) error {
	err := n.Do(func() error {
		ask := func(message, flags int, entryFlags uint8) ([][]byte, error) {
			req := nl.NewNetlinkRequest(message, flags)
			entry := []byte{familyOf(of.Addr), 0, 0, 0} // struct ndmsg
			entry = append(binary.NativeEndian.AppendUint32(entry, uint32(of.Device)), 0, 0, entryFlags, 0)
			req.AddRawData(append(entry, nl.NewRtAttr(netlink.NDA_DST, of.Addr.AsSlice()).Serialize()...))
			return req.Execute(unix.NETLINK_ROUTE, 0)
		}
		found, err := ask(unix.RTM_GETNEIGH, 0, 0)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return host.ErrGone
		}
		is, err := netlink.NeighDeserialize(found[0])
		if err != nil || is.State&unix.NUD_PERMANENT != 0 || is.FlagsExt&netlink.NTF_EXT_MANAGED != 0 {
			return err
		}
		// Without NLM_F_CREATE.
		_, err = ask(unix.RTM_NEWNEIGH, unix.NLM_F_ACK, netlink.NTF_USE|uint8(is.Flags)&netlink.NTF_EXT_LEARNED)
		return err
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		err = host.ErrGone
	}
	return n.Wrap("refresh neighbour "+of.Addr.String(), err)
}
