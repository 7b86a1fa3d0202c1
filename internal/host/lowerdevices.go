package host

import "github.com/vishvananda/netlink"

// LowerDevices gives a device of a namespace, and those of the same namespace that it
// stands on: the card of a VLAN or a tunnel, the cards of a bond. A bridge's ports
// are not among them: which of them packets take is not known.
func LowerDevices(links []netlink.Link, device string) (found []netlink.Link) {
	onPath := map[int]bool{} // on the path, by index
	for _, l := range links {
		if l.Attrs().Name == device {
			onPath[l.Attrs().Index] = true
		}
	}
	for before := 0; before != len(onPath); {
		before = len(onPath)
		for _, l := range links {
			a := l.Attrs()
			if bond := a.Slave != nil && a.Slave.SlaveType() == "bond"; bond && onPath[a.MasterIndex] {
				onPath[a.Index] = true
			}
			if !onPath[a.Index] {
				continue
			}
			// What a veth names is its other end; a parent elsewhere has a number of
			// its own namespace.
			if kind := l.Type(); kind != "veth" && kind != "netkit" && a.NetNsID < 0 {
				onPath[a.ParentIndex] = true
			}
			if v, ok := l.(*netlink.Vxlan); ok && a.NetNsID < 0 {
				onPath[v.VtepDevIndex] = true
			}
		}
	}
	for _, l := range links {
		if onPath[l.Attrs().Index] {
			found = append(found, l)
		}
	}
	return found
}
