package topology_test

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// On a node that somebody else has wired, only devices of a proven kind are wires; in a lab,
// which names its wire, any is that has a MAC.
func TestUnprovenWires(t *testing.T) {
	for _, c := range []struct{ name, wire, script, onNode, inLab string }{
		{"veth", "w0", "", "is a veth device whose other end is in the same network namespace", ""},
		{"bridge", "br1", "ip link add br1 up type bridge; ip link set w0 master br1", "is of kind bridge, which is not proven as a wire", ""},
		{"port of a bridge", "w0", "ip link add br1 up type bridge; ip link set w0 master br1", "is a port of br1, of kind bridge, which is not proven below a wire", ""},
		{"macvlan", "m0", "ip link add m0 up link w0 type macvlan mode bridge", "is of kind macvlan, which is not proven as a wire", ""},
		{"tun", "t0", "ip tuntap add t0 mode tun; ip link set t0 up", "is of kind tuntap, which is not proven as a wire", "has no MAC address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := testenv.Netns(t)
			testenv.Shell(t, n.Path(), "ip link add w0 up type veth peer w1; ip link set w1 up;"+c.script)
			for node, want := range map[bool]string{true: c.onNode, false: c.inLab} {
				var w topology.Topology
				testenv.InNetns(t, n.Path(), func() (err error) {
					w, err = topology.Read(topology.DeviceNames{Wire: c.wire, Node: node}, noPrograms)
					return err
				})
				why := ""
				if len(w.Refusals) > 0 {
					why = w.Refusals[0].Reason
				}
				if why != want {
					t.Errorf("on a node %v: %q, want %q", node, why, want)
				}
			}
		})
	}
}

// A VLAN or a bond is a wire only if all that it stands on is proven.
func TestUnprovenStacks(t *testing.T) {
	const elsewhere = 9
	attrs := func(index, parent, master int) netlink.LinkAttrs {
		return netlink.LinkAttrs{
			Name: map[int]string{1: "eth0", 2: "eth1", 3: "bond0", 4: "vlan4", 5: "vlan5", 6: "other6"}[index], Index: index, ParentIndex: parent, MasterIndex: master,
			NetNsID: -1, Flags: net.FlagUp, EncapType: "ether", HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, byte(index)},
		}
	}
	card := func(index, master int) netlink.Link { return &netlink.Device{LinkAttrs: attrs(index, 0, master)} }
	vlan := func(index, parent int) *netlink.Vlan { return &netlink.Vlan{LinkAttrs: attrs(index, parent, 0)} }
	elsewhereEnd := func(index int) netlink.LinkAttrs {
		a := attrs(index, 2, 0)
		a.NetNsID = 0
		return a
	}
	other := func(kind string, parent, master int) netlink.Link {
		return &netlink.GenericLink{LinkType: kind, LinkAttrs: attrs(6, parent, master)}
	}
	bond := &netlink.Bond{LinkAttrs: attrs(3, 0, 0)}
	stopped, stranger := card(1, 0), vlan(4, 1)
	stopped.Attrs().Flags, stranger.NetNsID = 0, 0
	for _, c := range []struct {
		name    string
		links   []netlink.Link
		reasons map[int]string
		wire    int
		want    string
	}{
		{"VLAN", []netlink.Link{card(1, 0), vlan(4, 1)}, nil, 4, ""},
		{"QinQ", []netlink.Link{card(1, 0), vlan(4, 1), vlan(5, 4)}, nil, 5, ""},
		{"bond", []netlink.Link{card(1, 3), card(2, 3), bond}, nil, 3, ""},
		{"VLAN on a bond", []netlink.Link{card(1, 3), card(2, 3), bond, vlan(4, 3)}, nil, 4, ""},
		{"attribute of the wire", []netlink.Link{card(1, 0), vlan(4, 1)}, map[int]string{4: "x", 2: "y"}, 4, "has x"},
		{"attribute of the VLAN below", []netlink.Link{card(1, 0), vlan(4, 1), vlan(5, 4)}, map[int]string{4: "x"}, 5, "stands on vlan4, which has x"},
		{"attribute of the bond below", []netlink.Link{card(1, 3), bond, vlan(4, 3)}, map[int]string{3: "x"}, 4, "stands on bond0, which has x"},
		{"attribute of a port", []netlink.Link{card(1, 3), card(2, 3), bond, vlan(4, 3)}, map[int]string{2: "x"}, 4, "stands on bond0, which stands on eth1, which has x"},
		{"veth", []netlink.Link{&netlink.Veth{LinkAttrs: elsewhereEnd(1)}}, nil, 1, ""},
		{"veth within the namespace", []netlink.Link{&netlink.Veth{LinkAttrs: attrs(1, 2, 0)}}, nil, 1, "is a veth device whose other end is in the same network namespace"},
		{"veth within the namespace, below a VLAN", []netlink.Link{&netlink.Veth{LinkAttrs: attrs(1, 2, 0)}, vlan(4, 1)}, nil, 4, "stands on eth0, which is a veth device whose other end is in the same network namespace"},
		{"team below a VLAN", []netlink.Link{other("team", 0, 0), vlan(4, 6)}, nil, 4, "stands on other6, which is of kind team, which is not proven below a device of kind vlan"},
		{"VLAN below a bond", []netlink.Link{card(1, 0), &netlink.Vlan{LinkAttrs: attrs(4, 1, 3)}, bond}, nil, 3, "stands on vlan4, which is of kind vlan, which is not proven below a device of kind bond"},
		{"macvlan below a bond", []netlink.Link{other("macvlan", 1, 3), bond}, nil, 3, "stands on other6, which is of kind macvlan, which is not proven below a device of kind bond"},
		{"port of a bridge below a VLAN", []netlink.Link{card(1, 6), other("bridge", 0, 0), vlan(4, 1)}, nil, 4, "stands on eth0, which is a port of other6, of kind bridge, which is not proven below a wire"},
		{"port of a bond below a VLAN", []netlink.Link{card(1, 3), bond, vlan(4, 1)}, nil, 4, "stands on eth0, which is a port of bond0, of kind bond, which is not proven below a wire"},
		{"port of a bond", []netlink.Link{card(1, 3), bond}, nil, 1, "is a port of bond0, of kind bond, which is not proven below a wire"},
		{"bond in a VRF", []netlink.Link{card(1, 3), &netlink.Bond{LinkAttrs: attrs(3, 0, 6)}, other("vrf", 0, 0)}, nil, 3, "is a port of other6, of kind vrf, which is not proven below a wire"},
		{"device below that is down", []netlink.Link{stopped, vlan(4, 1)}, nil, 4, "stands on eth0, which is down"},
		{"device of another namespace", []netlink.Link{card(1, 0), stranger}, nil, 4, "stands on a device of another network namespace"},
		{"device below that is gone", []netlink.Link{vlan(4, elsewhere)}, nil, 4, "stands on a device of another network namespace"},
	} {
		if why := topology.WireOf(c.links, c.reasons, c.wire); why != c.want {
			t.Errorf("%s: %q, want %q", c.name, why, c.want)
		}
	}
}
