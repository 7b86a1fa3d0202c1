package discover

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Devices of kinds that not every kernel has are left alone, each with its reason.
func TestLeavesKindsAlone(t *testing.T) {
	for _, c := range []struct{ kind, why string }{
		{"openvswitch", "is an Open vSwitch bridge"},
		{"wireguard", "leads to 10.9.0.0/16 by WireGuard"},
		{"ipip", "leads to 10.9.0.0/16 by IPIP"},
		{"xfrm", "leads to 10.9.0.0/16 by IPsec"},
		{"vlan", "leads to 10.9.0.0/16: the fast path uses one wire only, which is eth0"},
		{"bond", "leads to 10.9.0.0/16: the fast path uses one wire only, which is eth0"},
	} {
		to := netip.MustParsePrefix("10.9.0.0/16")
		l := &netlink.GenericLink{LinkType: c.kind, LinkAttrs: netlink.LinkAttrs{Name: "x0", Index: 7, NetNsID: -1, Flags: net.FlagUp}}
		n := &node{links: []netlink.Link{l}, byIndex: map[int]netlink.Link{7: l}, routes: []route{{to, 7, netip.MustParseAddr("10.9.0.1")}}}
		left := n.leftAlone(&Plan{Wire: "eth0"})
		if len(left) != 1 || left[0].Device != "x0" || !strings.HasPrefix(left[0].Reason, c.why) {
			t.Errorf("%s: %+v, want %q", c.kind, left, c.why)
		}
	}
}

// A tunnel to one host, which the fast path does not support, takes no node from the wire that it does.
func TestChoosesWire(t *testing.T) {
	wire := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "eth0", Index: 2, NetNsID: -1, Flags: net.FlagUp}}
	tunnel := &netlink.Iptun{LinkAttrs: netlink.LinkAttrs{Name: "tunl0", Index: 7, NetNsID: -1, Flags: net.FlagUp}}
	n := &node{links: []netlink.Link{wire, tunnel}, byIndex: map[int]netlink.Link{2: wire, 7: tunnel}}
	for i, device := range []int{2, 7, 7} {
		n.routes = append(n.routes, route{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i)}), 24), device, netip.MustParseAddr("192.0.2.9")})
	}
	if p := n.choose(); p.Kind != fastpath.IPIP || p.Tunnel != "tunl0" {
		t.Errorf("with most routes by the tunnel, it chose %+v", p)
	}
	tunnel.Remote = net.IPv4(192, 0, 2, 9)
	if p := n.choose(); p.Kind != fastpath.Routed || p.Wire != "eth0" || p.Tunnel != "" {
		t.Errorf("with a tunnel to one host, it chose %+v", p)
	}
}

// What leads to other nodes beside the tunnel is named, whatever the tunnel.
func TestNamesRoutesBesideTunnel(t *testing.T) {
	wire := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "eth0", Index: 2, NetNsID: -1, Flags: net.FlagUp}}
	n := &node{links: []netlink.Link{wire}, byIndex: map[int]netlink.Link{2: wire},
		routes: []route{{netip.MustParsePrefix("10.1.2.0/24"), 2, netip.MustParseAddr("192.0.2.9")}}}
	for _, kind := range []string{fastpath.IPIP, fastpath.VXLAN} {
		left := n.leftAlone(&Plan{Kind: kind, Wire: "eth0", Tunnel: "tunnel0"})
		if want := "leads to 10.1.2.0/24 without the tunnel"; len(left) != 1 || left[0].Device != "eth0" || !strings.HasPrefix(left[0].Reason, want) {
			t.Errorf("%s: %+v, want %q", kind, left, want)
		}
	}
	if left := n.leftAlone(&Plan{Kind: fastpath.Routed, Wire: "eth0"}); len(left) != 0 {
		t.Errorf("without a tunnel: %+v", left)
	}
}

// A plan says what its wire stands on.
func TestLayersOfWire(t *testing.T) {
	attrs := func(name string, index, parent, master int) netlink.LinkAttrs {
		return netlink.LinkAttrs{Name: name, Index: index, ParentIndex: parent, MasterIndex: master, NetNsID: -1}
	}
	n := &node{links: []netlink.Link{
		&netlink.Device{LinkAttrs: attrs("eth0", 1, 0, 3)}, &netlink.Device{LinkAttrs: attrs("eth1", 2, 0, 3)},
		&netlink.Bond{LinkAttrs: attrs("bond0", 3, 0, 0), Mode: netlink.BOND_MODE_802_3AD},
		&netlink.Vlan{LinkAttrs: attrs("bond0.100", 4, 3, 0), VlanId: 100, VlanProtocol: netlink.VLAN_PROTOCOL_8021AD},
		&netlink.Vlan{LinkAttrs: attrs("bond0.100.5", 5, 4, 0), VlanId: 5, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q},
	}}
	for device, want := range map[string]string{
		"eth0": "", "gone": "",
		"bond0":       "802.3ad bond of eth0 and eth1",
		"bond0.100":   "802.1ad VLAN 100 on bond0, 802.3ad bond of eth0 and eth1",
		"bond0.100.5": "VLAN 5 on bond0.100, 802.1ad VLAN 100 on bond0, 802.3ad bond of eth0 and eth1",
	} {
		if is := n.layers(device); is != want {
			t.Errorf("%s: %q, want %q", device, is, want)
		}
	}
}

// Geneve devices are chosen by their UDP port; those that are not are named, each with why.
func TestChoosesGeneve(t *testing.T) {
	device := func(name string, index, vni, port int, remote string) *netlink.Geneve {
		return &netlink.Geneve{LinkAttrs: netlink.LinkAttrs{Name: name, Index: index, NetNsID: -1, Flags: net.FlagUp}, ID: uint32(vni), Dport: uint16(port), Remote: net.ParseIP(remote).To4()}
	}
	wire := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "eth0", Index: 2, NetNsID: -1, Flags: net.FlagUp}}
	external := device("external", 7, 0, 6085, "0.0.0.0")
	external.FlowBased, external.Remote = true, nil
	n := &node{byIndex: map[int]netlink.Link{}, links: []netlink.Link{wire, device("one", 3, 1, 6081, "192.0.2.1"), device("other", 4, 1, 6082, "192.0.2.2"),
		device("two", 5, 1, 6081, "192.0.2.2"), device("idle", 6, 1, 6081, "192.0.2.3"), external}}
	n.routes = []route{{netip.MustParsePrefix("192.0.2.0/24"), 2, netip.Addr{}}}
	for i, index := range []int{2, 3, 4, 5, 7} {
		n.byIndex[index] = n.links[i]
		n.routes = append(n.routes, route{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(index)}), 24), index, netip.MustParseAddr("10.0.0.9")})
	}
	p := n.choose()
	if p.Kind != fastpath.Geneve || p.Port != 6081 || p.VNI != 1 || p.Wire != "eth0" || p.Tunnel != "one" || strings.Join(p.Tunnels, " ") != "one two" {
		t.Errorf("it chose %+v", p)
	}
	if c := p.Config(); c.Devices.GenevePort != 6081 || c.Port != 6081 {
		t.Errorf("its config is %+v", c)
	}
	left := map[string]string{}
	for _, l := range n.leftAlone(p) {
		left[l.Device] = l.Reason
	}
	for name, want := range map[string]string{
		"eth0":     "leads to 10.1.2.0/24 without the tunnel",
		"other":    "leads to 10.1.4.0/24 by Geneve to UDP port 6082: the fast path uses one port only, which is 6081",
		"external": "leads to 10.1.7.0/24 by a geneve device that is external, which the fast path does not support",
	} {
		if !strings.HasPrefix(left[name], want) {
			t.Errorf("%s: %q, want %q", name, left[name], want)
		}
		delete(left, name)
	}
	if len(left) > 0 {
		t.Errorf("also left are %v", left)
	}
	n.links[3].(*netlink.Geneve).ID = 9
	if p := n.choose(); p.VNI != 0 {
		t.Errorf("with two VNIs, it chose %+v", p)
	}
	p = &Plan{Kind: fastpath.VXLAN, Tunnel: "flannel.1", Wire: "eth0"}
	if got := whyGeneveLeft(n.links[1].(*netlink.Geneve), p, []string{"10.1.3.0/24"}); got != "leads to 10.1.3.0/24 by Geneve: the fast path uses one wire or kind of tunnel only, which is flannel.1" {
		t.Errorf("beside a vxlan device: %q", got)
	}
}

// A node without IPv6 has none of its sysctls: it forwards nothing of it, which is no failure.
func TestForwards(t *testing.T) {
	root := t.TempDir()
	if is, err := forwards(host.Reader{Root: root}, topology.IPv6); is || err != nil {
		t.Errorf("without the sysctl: %v, %v", is, err)
	}
	file := filepath.Join(root, "proc/sys/net/ipv6/conf/all/forwarding")
	testenv.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	for value, want := range map[string]bool{"0": false, "1": true} {
		testenv.Must(t, os.WriteFile(file, []byte(value+"\n"), 0o644))
		if is, err := forwards(host.Reader{Root: root}, topology.IPv6); is != want || err != nil {
			t.Errorf("with %s: %v, %v", value, is, err)
		}
	}
}
