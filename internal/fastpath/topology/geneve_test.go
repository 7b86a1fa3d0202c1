package topology_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// What makes a geneve device treat packets of a flow in different ways, send elsewhere, or add to its header
// is refused by name, and so is an attribute that nobody knows.
func TestUnprovenGeneve(t *testing.T) {
	octet := func(number int, value byte) *nl.RtAttr { return nl.NewRtAttr(number, []byte{value}) }
	remote := nl.NewRtAttr(nl.IFLA_GENEVE_REMOTE, []byte{192, 0, 2, 1})
	for _, c := range []struct {
		why       string
		remote    *nl.RtAttr
		attr      *nl.RtAttr
		dscp, ttl int
		df        bool
	}{
		{"", remote, octet(nl.IFLA_GENEVE_TTL, 9), 0, 9, false},
		{"", remote, octet(nl.IFLA_GENEVE_TOS, 0xb8), 46, 0, false},
		{"", remote, octet(nl.IFLA_GENEVE_DF, 0), 0, 0, false},
		{"", remote, octet(nl.IFLA_GENEVE_DF, 1), 0, 0, true},
		{"", remote, octet(nl.IFLA_GENEVE_UDP_CSUM, 1), 0, 0, false},
		{"", remote, octet(nl.IFLA_GENEVE_TTL_INHERIT, 0), 0, 0, false},
		{"", remote, nl.NewRtAttr(nl.IFLA_GENEVE_PORT_RANGE, []byte{1, 0, 2, 0}), 0, 0, false},
		{"df inherit", remote, octet(nl.IFLA_GENEVE_DF, 2), 0, 0, false},
		{"tos inherit", remote, octet(nl.IFLA_GENEVE_TOS, 1), 0, 0, false},
		{"ttl inherit", remote, octet(nl.IFLA_GENEVE_TTL_INHERIT, 1), 0, 0, false},
		{"innerprotoinherit", remote, nl.NewRtAttr(nl.IFLA_GENEVE_INNER_PROTO_INHERIT, nil), 0, 0, false},
		{"gro hint", remote, octet(16, 1), 0, 0, false},
		{"external", nl.NewRtAttr(nl.IFLA_GENEVE_ID, make([]byte, 4)), nl.NewRtAttr(nl.IFLA_GENEVE_COLLECT_METADATA, nil), 0, 0, false},
		{"no remote", nl.NewRtAttr(nl.IFLA_GENEVE_REMOTE, make([]byte, 4)), octet(nl.IFLA_GENEVE_TTL, 0), 0, 0, false},
		{"remote over IPv6", nl.NewRtAttr(nl.IFLA_GENEVE_REMOTE6, net.ParseIP("fd00::1")), octet(nl.IFLA_GENEVE_TTL, 0), 0, 0, false},
		{"attribute 200 of a geneve device", remote, octet(unseen, 0), 0, 0, false},
	} {
		dscp, ttl, df, why, err := topology.GeneveOf(append(c.remote.Serialize(), c.attr.Serialize()...))
		if err != nil || why != c.why || dscp != c.dscp || ttl != c.ttl || df != c.df {
			t.Errorf("%q, DSCP %d, TTL %d, DF %v, want %+v; %v", why, dscp, ttl, df, c, err)
		}
	}
}

// A geneve device may not get its packets if another one has its other end, VNI and port.
func TestSameGeneve(t *testing.T) {
	is := netlink.Geneve{LinkAttrs: netlink.LinkAttrs{Name: "geneve1", Index: 7}, ID: 5, Dport: 6081, Remote: net.IPv4(192, 0, 2, 1).To4()}
	for name, change := range map[string]func(other *netlink.Geneve){
		"":               func(*netlink.Geneve) {},
		"another VNI":    func(other *netlink.Geneve) { other.ID++ },
		"another port":   func(other *netlink.Geneve) { other.Dport++ },
		"another remote": func(other *netlink.Geneve) { other.Remote = net.IPv4(192, 0, 2, 2).To4() },
	} {
		other := is
		other.Name, other.Index = "other0", 8
		change(&other)
		got := topology.SameGeneve(&is, &is, &other)
		if (got != "") != (name == "") || got != "" && !strings.Contains(got, "other0") {
			t.Errorf("beside one with %s: %q", name, got)
		}
	}
}

// Peers behind several devices that have one MAC are told apart by nothing: the first one is carried to.
func TestSharedMAC(t *testing.T) {
	mac, other := net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}
	hop := func(device, wire int, mac net.HardwareAddr, addr string) topology.NextHop {
		return topology.NextHop{Device: device, WireDevice: wire, MAC: mac, InnerAddr: netip.MustParseAddr(addr)}
	}
	got := topology.SharedMACs(hop(7, 2, mac, "10.0.0.1"), hop(7, 2, mac, "10.0.0.2"), hop(8, 2, other, "10.0.0.3"), hop(8, 3, mac, "10.0.0.4"), hop(8, 2, mac, "10.0.0.5"))
	for i, why := range got {
		if last := i == len(got)-1; last != (why != "") || last && !strings.Contains(why, "device7") {
			t.Errorf("next hop %d: %q", i, why)
		}
	}
}
