package host

import "github.com/vishvananda/netlink"

// Beneath gives a device of a namespace, and those of the same namespace that it
// stands on: the card of a VLAN or a tunnel, the cards of a bond. A bridge's ports
// are not among them: which of them packets take is not known.
func Beneath(links []netlink.Link, device string) (found []netlink.Link) {
	lies := map[int]bool{} // on the path, by index
	for _, l := range links {
		if l.Attrs().Name == device {
			lies[l.Attrs().Index] = true
		}
	}
	for before := 0; before != len(lies); {
		before = len(lies)
		for _, l := range links {
			a := l.Attrs()
			if bond := a.Slave != nil && a.Slave.SlaveType() == "bond"; bond && lies[a.MasterIndex] {
				lies[a.Index] = true
			}
			if !lies[a.Index] {
				continue
			}
			// What a veth names is its other end; a parent elsewhere has a number of
			// its own namespace.
			if kind := l.Type(); kind != "veth" && kind != "netkit" && a.NetNsID < 0 {
				lies[a.ParentIndex] = true
			}
			if v, ok := l.(*netlink.Vxlan); ok && a.NetNsID < 0 {
				lies[v.VtepDevIndex] = true
			}
		}
	}
	for _, l := range links {
		if lies[l.Attrs().Index] {
			found = append(found, l)
		}
	}
	return found
}
