package topology

import (
	"fmt"
	"iter"
	"maps"
	"net"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/host"
)

// IsPodLink tells whether a device may lead to a pod: it is one end of a pair, and the
// other end is in another namespace.
func IsPodLink(l netlink.Link) bool {
	return host.IsPair(l.Type()) && l.Attrs().NetNsID >= 0
}

// IsUp tells whether a device is up.
func IsUp(l netlink.Link) bool { return l.Attrs().Flags&net.FlagUp != 0 }

// podLinks gives the devices that may lead to pods.
func (r *reader) podLinks(of DeviceNames) []string {
	if !of.Node {
		return of.Pods
	}
	var names []string
	var wires []int // and what they stand on
	if wire, ok := r.byName[of.Wire]; ok {
		wires = append(r.lowerDevices(wire.Attrs().Index), wire.Attrs().Index)
	}
	for name, l := range r.byName {
		if IsPodLink(l) && !slices.Contains(wires, l.Attrs().Index) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

const (
	kindVLAN = "vlan"
	kindBond = "bond"
)

// provenWires are the kinds of devices that a node's wire may be ("device" is hardware), each with
// the kinds of devices that it may stand on.
var provenWires = map[string][]string{
	"device": nil,
	"veth":   nil,
	kindBond: {"device", "veth"},
	kindVLAN: {"device", "veth", kindBond, kindVLAN},
}

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
	index := l.Attrs().Index
	why, known := r.wireReasons[index]
	if !known {
		why = r.auditWire(l)
		r.wireReasons[index] = why
	}
	return why
}

func (r *reader) auditWire(l netlink.Link) string {
	a := l.Attrs()
	_, proven := provenWires[l.Type()]
	switch {
	case r.node && !proven:
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
	if taker := r.takerOf(a.Index); taker != "" {
		return "loses packets to " + taker + ", a macvlan in mode passthru or source"
	}
	return r.auditStack(l)
}

// takerOf names a device of this namespace that takes packets for this host from the device below it; "": none.
func (r *reader) takerOf(index int) string {
	for _, l := range r.byIndex {
		mode := netlink.MACVLAN_MODE_DEFAULT
		switch upper := l.(type) {
		case *netlink.Macvlan:
			mode = upper.Mode
		case *netlink.Macvtap:
			mode = upper.Mode
		}
		if l.Attrs().ParentIndex == index && l.Attrs().NetNsID < 0 && (mode == netlink.MACVLAN_MODE_PASSTHRU || mode == netlink.MACVLAN_MODE_SOURCE) {
			return l.Attrs().Name
		}
	}
	return ""
}

// auditStack says why a device must not carry a wire's packets, or one that it stands on; "": they may.
func (r *reader) auditStack(l netlink.Link) string {
	if why := r.linkReasons[l.Attrs().Index]; why != "" {
		return "has " + why
	}
	if r.node && l.Type() == "veth" && l.Attrs().NetNsID < 0 {
		return "is a veth device whose other end is in the same network namespace" // what is behind it may read marks
	}
	lower := LowerLinks(maps.Values(r.byIndex), l)
	if l.Type() == kindVLAN && len(lower) == 0 {
		return "stands on a device of another network namespace"
	}
	for _, below := range lower {
		if why := r.auditLower(below, l); why != "" {
			return StandsOn(below.Attrs().Name, why)
		}
	}
	return ""
}

// auditLower says why another device must not stand on a device; "": it may.
func (r *reader) auditLower(l, upper netlink.Link) string {
	a := l.Attrs()
	switch {
	case !slices.Contains(provenWires[upper.Type()], l.Type()):
		return fmt.Sprintf("is of kind %s, which is not proven below a device of kind %s", l.Type(), upper.Type())
	case a.MasterIndex != upper.Attrs().Index && r.masterReason(l) != "":
		return r.masterReason(l) + ", which is not proven below a wire"
	case upper.Type() == kindVLAN && !IsUp(l):
		return "is down"
	}
	return r.auditStack(l)
}

// LowerLinks are those of some devices of a namespace that a VLAN or a bond stands on, by index. Other
// kinds of wires stand on none.
func LowerLinks(links iter.Seq[netlink.Link], l netlink.Link) []netlink.Link {
	if kind := l.Type(); kind != kindVLAN && kind != kindBond {
		return nil
	}
	return host.LowerLinks(links, l)
}

// StandsOn says of a device that one below it is in the way.
func StandsOn(lower, why string) string { return fmt.Sprintf("stands on %s, which %s", lower, why) }
