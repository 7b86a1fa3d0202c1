package host

import (
	"iter"
	"slices"

	"github.com/vishvananda/netlink"
)

// LowerDevices gives a device of a namespace, and those of the same namespace that it
// stands on, down to the last.
func LowerDevices(links []netlink.Link, device string) (found []netlink.Link) {
	onPath := map[int]bool{} // by index
	var add func(netlink.Link)
	add = func(l netlink.Link) {
		if index := l.Attrs().Index; !onPath[index] {
			onPath[index] = true
			for _, lower := range LowerLinks(slices.Values(links), l) {
				add(lower)
			}
		}
	}
	for _, l := range links {
		if l.Attrs().Name == device {
			add(l)
		}
	}
	for _, l := range links {
		if onPath[l.Attrs().Index] {
			found = append(found, l)
		}
	}
	return found
}

// LowerLinks gives those of a namespace's devices that one of them stands on itself, by index:
// the card of a VLAN or a tunnel, the cards of a bond. A bridge's ports are not among them:
// which of them packets take is not known.
func LowerLinks(links iter.Seq[netlink.Link], l netlink.Link) (lower []netlink.Link) {
	a := l.Attrs()
	var parents []int
	// What a veth names is its other end; a parent elsewhere has a number of its own namespace.
	if !IsPair(l.Type()) && a.NetNsID < 0 {
		parents = append(parents, a.ParentIndex)
		if v, ok := l.(*netlink.Vxlan); ok {
			parents = append(parents, v.VtepDevIndex)
		}
	}
	for other := range links {
		b := other.Attrs()
		if slices.Contains(parents, b.Index) || l.Type() == "bond" && b.MasterIndex == a.Index {
			lower = append(lower, other)
		}
	}
	slices.SortFunc(lower, func(a, b netlink.Link) int { return a.Attrs().Index - b.Attrs().Index })
	return lower
}
