package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Neighbour is an IPv4 address on the link of a device.
type Neighbour struct {
	Device int // index
	Addr   netip.Addr
}

// stateOfNdMsg is where the state is in a struct ndmsg.
const stateOfNdMsg = 8

// StaleNeighbours are those of the calling thread's namespace that the kernel would
// send to, and ask again whether they are there as soon as it did. Where they change
// all the time, some may be missing.
func StaleNeighbours() (map[Neighbour]bool, error) {
	all, err := dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
		req.AddData(&netlink.Ndmsg{Family: unix.AF_INET})
		return req.Execute(unix.NETLINK_ROUTE, 0)
	})
	if err != nil && !errors.Is(err, ErrInterrupted) {
		return nil, fmt.Errorf("list neighbours: %w", err)
	}
	stale := map[Neighbour]bool{}
	for _, m := range all {
		if len(m) < unix.SizeofNdMsg || binary.NativeEndian.Uint16(m[stateOfNdMsg:])&unix.NUD_STALE == 0 {
			continue // most are not: what else they are is not read
		}
		if n, err := netlink.NeighDeserialize(m); err == nil {
			stale[Neighbour{n.LinkIndex, addrOf(n.IP)}] = true
		}
	}
	return stale, nil
}
