package netcfg

import "github.com/vishvananda/netlink"

// VLAN is what a VLAN device is made of.
type VLAN struct {
	Name    string
	ID      int
	Service bool // the tag is one of 802.1ad, not of 802.1Q
	MTU     int  // bytes, without the tag
}

// AddVLAN makes a VLAN device on another device and brings it up. It has the
// MAC of that.
func (n *Namespace) AddVLAN(device string, v VLAN) error {
	under, err := n.link(device)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.ParentIndex = v.Name, v.MTU, under.Attrs().Index
	link := &netlink.Vlan{LinkAttrs: attrs, VlanId: v.ID, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}
	if v.Service {
		link.VlanProtocol = netlink.VLAN_PROTOCOL_8021AD
	}
	if err := n.h.LinkAdd(link); err != nil {
		return n.Wrap("add VLAN "+v.Name, err)
	}
	return n.Up(v.Name)
}
