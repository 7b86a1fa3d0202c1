package netcfg

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// IPVLAN is what an ipvlan device is made of. All on one device have its MAC,
// and one mode: l2, l3, l3s.
type IPVLAN struct {
	In   *Namespace // where it is born
	Name string
	Mode string
	MTU  int // bytes; at most that of the device
}

var ipvlanModes = map[string]netlink.IPVlanMode{
	"l2": netlink.IPVLAN_MODE_L2, "l3": netlink.IPVLAN_MODE_L3, "l3s": netlink.IPVLAN_MODE_L3S,
}

// AddIPVLAN makes an ipvlan on a device of this namespace, in the namespace
// that it is for, and brings it up.
func (n *Namespace) AddIPVLAN(device string, v IPVLAN) error {
	mode, ok := ipvlanModes[v.Mode]
	if !ok {
		return n.Wrap("add ipvlan on "+device, fmt.Errorf("unknown mode %q", v.Mode))
	}
	under, err := n.link(device)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.ParentIndex = v.Name, v.MTU, under.Attrs().Index
	attrs.Namespace = netlink.NsFd(int(v.In.file.Fd()))
	if err := n.h.LinkAdd(&netlink.IPVlan{LinkAttrs: attrs, Mode: mode}); err != nil {
		return n.Wrap("add ipvlan on "+device, err)
	}
	return v.In.Up(v.Name)
}
