package topology

import (
	"errors"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// XDPProgram returns the id of the XDP program of a device of the calling thread's namespace; 0
// means that it has none, or is gone. No notification is sent when a program is attached by a BPF
// link.
func XDPProgram(device int) (program uint32, err error) {
	const withoutCounters = 1 << 3 // RTEXT_FILTER_SKIP_STATS
	message, err := readLink(nil, device, nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(withoutCounters)))
	if errors.Is(err, unix.ENODEV) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	l, err := netlink.LinkDeserialize(nil, message)
	if err != nil || l.Attrs().Xdp == nil {
		return 0, err
	}
	return l.Attrs().Xdp.ProgId, nil
}
