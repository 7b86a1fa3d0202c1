package discover

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// Devices of kinds that not every kernel has are left alone, each with its reason.
func TestLeavesKindsAlone(t *testing.T) {
	for _, c := range []struct{ kind, why string }{
		{"openvswitch", "is an Open vSwitch bridge"},
		{"geneve", "leads to 10.9.0.0/16 by Geneve, which the fast path does not support"},
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
