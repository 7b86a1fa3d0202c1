package topology

import (
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
)

// IsPodLink tells whether a device may lead to a pod: it is one end of a pair, and the
// other end is in another namespace.
func IsPodLink(l netlink.Link) bool {
	return (l.Type() == "veth" || l.Type() == kindNetkit) && l.Attrs().NetNsID >= 0
}

// podLinks gives the devices that may lead to pods.
func (r *reader) podLinks(of DeviceNames) []string {
	if !of.Node {
		return of.Pods
	}
	var names []string
	for name, l := range r.byName {
		if IsPodLink(l) && name != of.Wire {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// provenWires are the kinds of devices that a node's wire may be: "device" is hardware.
var provenWires = map[string]bool{"device": true, "veth": true}

// masterReason says that a device belongs to another, such as a VRF, which treats its packets by
// routes and rules of its own; "" means that it does not.
func (r *reader) masterReason(l netlink.Link) string {
	master, ok := r.byIndex[l.Attrs().MasterIndex]
	if !ok {
		return ""
	}
	return fmt.Sprintf("is a port of %s, of kind %s", master.Attrs().Name, master.Type())
}

// unprovenWire says why a device must not be the wire; "": it may.
func (r *reader) unprovenWire(l netlink.Link) string {
	a := l.Attrs()
	switch {
	case r.node && !provenWires[l.Type()]:
		return "is of kind " + l.Type() + ", which is not proven as a wire"
	case r.node && a.EncapType != "ether":
		return "carries no Ethernet frames, but " + a.EncapType
	case len(a.HardwareAddr) != macLen:
		return "has no MAC address"
	case !r.node:
		return ""
	}
	if why := r.masterReason(l); why != "" {
		return why + ", which is not proven below a wire"
	}
	return ""
}
