package host_test

import (
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/host"
)

// What a device stands on is found down to the cards, in its own namespace, and not through a pair or a bridge.
func TestLowerDevices(t *testing.T) {
	const here, elsewhere = -1, 3
	attrs := func(index int, name string, parent, master, netns int) netlink.LinkAttrs {
		return netlink.LinkAttrs{Index: index, Name: name, ParentIndex: parent, MasterIndex: master, NetNsID: netns}
	}
	links := []netlink.Link{
		&netlink.Vxlan{LinkAttrs: attrs(9, "vxlan", 0, 8, here), VtepDevIndex: 5},
		&netlink.Bridge{LinkAttrs: attrs(8, "bridge", 0, 0, here)},
		&netlink.Vlan{LinkAttrs: attrs(6, "inner", 5, 0, here)},
		&netlink.Vlan{LinkAttrs: attrs(5, "outer", 4, 0, here)},
		&netlink.Bond{LinkAttrs: attrs(4, "bond", 0, 0, here)},
		&netlink.Device{LinkAttrs: attrs(3, "eth1", 0, 4, here)},
		&netlink.Device{LinkAttrs: attrs(2, "eth0", 0, 4, here)},
		&netlink.Vlan{LinkAttrs: attrs(7, "moved", 2, 0, elsewhere)},
		&netlink.Veth{LinkAttrs: attrs(10, "end", 11, 0, here)},
		&netlink.Veth{LinkAttrs: attrs(11, "other", 10, 0, here)},
	}
	for device, want := range map[string][]string{
		"vxlan":  {"vxlan", "outer", "bond", "eth1", "eth0"},
		"inner":  {"inner", "outer", "bond", "eth1", "eth0"},
		"bond":   {"bond", "eth1", "eth0"},
		"bridge": {"bridge"},
		"eth0":   {"eth0"},
		"moved":  {"moved"},
		"end":    {"end"},
		"none":   nil,
	} {
		var got []string
		for _, l := range host.LowerDevices(links, device) {
			got = append(got, l.Attrs().Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s stands on %v, want %v", device, got, want)
		}
	}
}
