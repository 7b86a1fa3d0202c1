package netcfg

import (
	"net"

	"github.com/vishvananda/netlink"
)

// MACVLAN is what a macvlan device is made of. Those on one device reach each
// other directly, and not the device's own address.
type MACVLAN struct {
	In   *Namespace // where it is born
	Name string
	MAC  net.HardwareAddr
	MTU  int // bytes; at most that of the device
}

// AddMACVLAN makes a macvlan on a device of this namespace, in the namespace
// that it is for, and brings it up.
func (n *Namespace) AddMACVLAN(device string, m MACVLAN) error {
	under, err := n.link(device)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = m.Name, m.MAC, m.MTU
	attrs.ParentIndex = under.Attrs().Index
	attrs.Namespace = netlink.NsFd(int(m.In.file.Fd()))
	link := &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
	if err := n.h.LinkAdd(link); err != nil {
		return n.Wrap("add macvlan on "+device, err)
	}
	return m.In.Up(m.Name)
}
