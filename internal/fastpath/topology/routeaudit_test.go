package topology_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// nativeAttr is an attribute with a number in native byte order.
func nativeAttr(kind int, value uint32) *nl.RtAttr { return nl.NewRtAttr(kind, nl.Uint32Attr(value)) }

func message(header []byte, attrs ...*nl.RtAttr) []byte {
	m := slices.Clone(header)
	for _, a := range attrs {
		m = append(m, a.Serialize()...)
	}
	return m
}

// An attribute of a route or next hop that is not proven to treat all packets of a flow alike is
// refused by name.
func TestUnprovenRoutes(t *testing.T) {
	route := make([]byte, unix.SizeofRtMsg)
	route[0], route[7] = unix.AF_INET, unix.RTN_UNICAST
	special := slices.Clone(route)
	special[7] = 77
	from := slices.Clone(route)
	from[2] = 24
	hops := make([]byte, unix.SizeofRtNexthop)
	binary.NativeEndian.PutUint16(hops, unix.SizeofRtNexthop)
	hops[4] = 9
	device := nativeAttr(unix.RTA_OIF, 5)
	for _, c := range []struct {
		why     string
		message []byte
		devices []int
	}{
		{"", message(route, device, nativeAttr(unix.RTA_PRIORITY, 1), nestedAttr(unix.RTA_METRICS, nativeAttr(unix.RTAX_MTU, 1400))), []int{5}},
		{"an encapsulation", message(route, device, nativeAttr(unix.RTA_ENCAP, 1)), []int{5}},
		{"an encapsulation", message(route, device, nl.NewRtAttr(unix.RTA_ENCAP_TYPE, []byte{6, 0})), []int{5}},
		{"a next hop of another family", message(route, device, nativeAttr(unix.RTA_VIA, 1)), []int{5}},
		{"several next hops", message(route, nl.NewRtAttr(unix.RTA_MULTIPATH, append(hops, hops...))), []int{9, 9}},
		{"attribute 99 of the metrics of a route", message(route, device, nestedAttr(unix.RTA_METRICS, nativeAttr(99, 1))), []int{5}},
		{"attribute 200 of a route", message(route, device, nativeAttr(unseen, 1)), []int{5}},
		{"type 77", message(special, device), []int{5}},
		{"a source prefix (from)", message(from, device), []int{5}},
		{"a part that cannot be parsed (attribute of 1 bytes, of which 4 are there: invalid argument)", append(message(route, device), 1, 0, 1, 0), nil},
		{"a message of 3 bytes", route[:3], nil},
	} {
		why, devices := topology.RouteOf(c.message)
		if why != c.why || !slices.Equal(devices, c.devices) {
			t.Errorf("%q, by devices %v, want %q by %v", why, devices, c.why, c.devices)
		}
	}
	hop := make([]byte, 8)
	hop[0] = unix.AF_INET
	other := bytes.Clone(hop)
	other[0] = unix.AF_INET6
	for want, m := range map[string][]byte{
		"":                             message(hop, nativeAttr(unix.NHA_ID, 1), nativeAttr(unix.NHA_OIF, 2), nativeAttr(unix.NHA_GATEWAY, 3)),
		"several next hops":            message(hop, nativeAttr(unix.NHA_ID, 1), nl.NewRtAttr(unix.NHA_GROUP, make([]byte, 8))),
		"an encapsulation":             message(hop, nativeAttr(unix.NHA_ID, 1), nativeAttr(unix.NHA_ENCAP, 1)),
		"a next hop of another family": message(other, nativeAttr(unix.NHA_ID, 1), nativeAttr(unix.NHA_GATEWAY, 3)),
		"attribute 12 of a next hop":   message(hop, nativeAttr(unix.NHA_ID, 1), nativeAttr(12, 1)),
		"attribute 200 of a next hop":  message(hop, nativeAttr(unix.NHA_ID, 1), nativeAttr(unseen, 1)),
	} {
		if why, err := topology.NexthopOf(m); err != nil || why != want {
			t.Errorf("%q, want %q; %v", why, want, err)
		}
	}
}

// The same holds for neighbours and forwarding entries. Their relevant attributes are part of the
// fingerprint.
func TestUnprovenNeighbours(t *testing.T) {
	entry := func(family byte, attrs ...*nl.RtAttr) []byte {
		head := make([]byte, 12)
		head[0], head[4], head[8] = family, 5, unix.NUD_REACHABLE
		return message(head, append(attrs, nl.NewRtAttr(unix.NDA_LLADDR, []byte{2, 0, 0, 0, 0, 1}))...)
	}
	master, address := nativeAttr(unix.NDA_MASTER, 7), nativeAttr(unix.NDA_DST, 8)
	for _, c := range []struct {
		why     string
		message []byte
	}{
		{"", entry(unix.AF_INET, address)},
		{"attribute 200 of a neighbour", entry(unix.AF_INET, address, nativeAttr(unseen, 1))},
		{"", entry(unix.AF_BRIDGE, master)},
		{"attribute 13 of a bridge's forwarding entry", entry(unix.AF_BRIDGE, master, nativeAttr(13, 1))},
		{"attribute 200 of a bridge's forwarding entry", entry(unix.AF_BRIDGE, master, nativeAttr(unseen, 1))},
		{"", entry(unix.AF_BRIDGE, address)},
		{"attribute 6 of a tunnel's forwarding entry", entry(unix.AF_BRIDGE, address, nl.NewRtAttr(unix.NDA_PORT, []byte{1, 2}))},
		{"attribute 7 of a tunnel's forwarding entry", entry(unix.AF_BRIDGE, address, nativeAttr(unix.NDA_VNI, 1))},
		{"attribute 8 of a tunnel's forwarding entry", entry(unix.AF_BRIDGE, address, nativeAttr(unix.NDA_IFINDEX, 1))},
		{"attribute 13 of a tunnel's forwarding entry", entry(unix.AF_BRIDGE, nativeAttr(13, 1))},
		{"attribute 200 of a tunnel's forwarding entry", entry(unix.AF_BRIDGE, address, nativeAttr(unseen, 1))},
	} {
		why, name, value, err := topology.NeighbourOf(c.message)
		if err != nil || why != c.why {
			t.Errorf("%q, want %q; %v", why, c.why, err)
		}
		changed := append(bytes.Clone(c.message), nativeAttr(unseen+1, 2).Serialize()...)
		if _, now, is, err := topology.NeighbourOf(changed); err != nil || now != name || is == value {
			t.Errorf("of %q, one more attribute is no change: %q of %q; %v", name, is, value, err)
		}
	}
}

// The same holds for tunnel devices.
func TestUnprovenTunnels(t *testing.T) {
	flag := func(number int, value byte) *nl.RtAttr { return nl.NewRtAttr(number, []byte{value}) }
	for want, attr := range map[string]*nl.RtAttr{
		"":                                flag(7, 1), // learning
		"rsc":                             flag(12, 1),
		"vnifilter":                       flag(30, 1),
		"tos inherit":                     flag(6, 1),
		"attribute 200 of a vxlan device": flag(unseen, 0),
	} {
		if why, err := topology.OuterOf(attr.Serialize()); err != nil || why != want {
			t.Errorf("%q, want %q; %v", why, want, err)
		}
	}
}

// What makes an ipip device send elsewhere, or more than an IP header, is refused by name, and so is
// an attribute that nobody knows.
func TestUnprovenIPIP(t *testing.T) {
	octet := func(number int, value byte) *nl.RtAttr { return nl.NewRtAttr(number, []byte{value}) }
	none := nl.NewRtAttr(nl.IFLA_IPTUN_REMOTE, make([]byte, 4))
	for _, c := range []struct {
		why       string
		attr      *nl.RtAttr
		dscp, ttl int
		df        bool
	}{
		{"", octet(nl.IFLA_IPTUN_TTL, 9), 0, 9, false},
		{"", octet(nl.IFLA_IPTUN_TOS, 0xb8), 46, 0, false},
		{"", octet(nl.IFLA_IPTUN_PMTUDISC, 1), 0, 0, true},
		{"", octet(nl.IFLA_IPTUN_PROTO, unix.IPPROTO_IPIP), 0, 0, false},
		{"", nl.NewRtAttr(nl.IFLA_IPTUN_ENCAP_TYPE, []byte{0, 0}), 0, 0, false},
		{"remote", nl.NewRtAttr(nl.IFLA_IPTUN_REMOTE, []byte{192, 0, 2, 1}), 0, 0, false},
		{"encap", nl.NewRtAttr(nl.IFLA_IPTUN_ENCAP_TYPE, []byte{1, 0}), 0, 0, false},
		{"external", nl.NewRtAttr(nl.IFLA_IPTUN_COLLECT_METADATA, nil), 0, 0, false},
		{"fwmark", nativeAttr(20, 7), 0, 0, false},
		{"tos inherit", octet(nl.IFLA_IPTUN_TOS, 1), 0, 0, false},
		{"protocol 137", octet(nl.IFLA_IPTUN_PROTO, 137), 0, 0, false},
		{"attribute 200 of an ipip device", octet(unseen, 0), 0, 0, false},
	} {
		dscp, ttl, df, why, err := topology.IPIPOf(append(none.Serialize(), c.attr.Serialize()...))
		if err != nil || why != c.why || dscp != c.dscp || ttl != c.ttl || df != c.df {
			t.Errorf("%q, DSCP %d, TTL %d, DF %v, want %+v; %v", why, dscp, ttl, df, c, err)
		}
	}
}

// An unproven route or entry excludes the next hops that it leads to, and no others.
func TestUnprovenRoutesRefuse(t *testing.T) {
	for _, c := range []struct {
		name, more  string
		pods, peers int
		refused     string
	}{
		{"encapsulation to a pod", "ip route add 10.0.1.2 encap ip id 7 dst 192.0.2.9 dev br0", 0, 1, "the route to 10.0.1.2/32 in table 254 has an encapsulation"},
		{"encapsulation to peers", "ip route add 10.0.2.0/24 encap ip id 7 dst 192.0.2.9 dev v0 table 100", 1, 0, "the route to 10.0.2.0/24 in table 100 has an encapsulation"},
		{"encapsulation beneath the tunnel", "ip route add 192.0.2.2 encap ip id 7 dst 192.0.2.9 dev w0", 1, 0, "the route to 192.0.2.2/32 in table 254 has an encapsulation"},
		{"several next hops", "ip route add 10.0.2.0/24 nexthop dev w0 nexthop dev v0", 1, 0, "the route to 10.0.2.0/24 in table 254 has several next hops"},
		{"a group of next hops", "ip nexthop add id 7 dev v0; ip nexthop add id 8 dev w0; ip nexthop add id 9 group 7/8; ip route add 10.0.2.0/24 nhid 9", 1, 0, "the route to 10.0.2.0/24 in table 254 has several next hops"},
		{"an object that encapsulates", "echo 0 > /proc/sys/net/ipv4/nexthop_compat_mode; ip nexthop add id 7 encap ip id 7 dst 192.0.2.9 dev v0; ip route add 10.0.2.0/24 nhid 7", 1, 0, "the route to 10.0.2.0/24 in table 254 has an encapsulation"},
		{"an object", "ip nexthop add id 7 dev v0; ip route add 10.0.2.0/24 nhid 7", 1, 1, ""},
		{"elsewhere", "ip link add d0 up type veth peer d1; ip route add 10.0.3.0/24 encap ip id 7 dst 192.0.2.9 dev d0", 1, 1, ""},
		{"an encapsulation that no library knows", "ip route add 10.0.2.0/24 encap seg6 mode encap segs fc00::1 hmac 1 dev v0", 1, 0, "the route to 10.0.2.0/24 in table 254 has an encapsulation"},
		{"metrics", "ip route add 10.0.2.0/24 dev v0 mtu lock 1400 initcwnd 10 hoplimit 9 rto_min 1s", 1, 1, ""},
		{"port of an entry", "bridge fdb replace 02:00:00:00:03:02 dev v0 dst 192.0.2.2 port 9999", 1, 0, "its entry for 02:00:00:00:03:02 has attribute 6 of a tunnel's forwarding entry"},
		{"VNI of an entry", "bridge fdb replace 02:00:00:00:03:02 dev v0 dst 192.0.2.2 vni 999", 1, 0, "its entry for 02:00:00:00:03:02 has attribute 7 of a tunnel's forwarding entry"},
		{"device of an entry", "bridge fdb replace 02:00:00:00:03:02 dev v0 dst 192.0.2.2 via w0", 1, 0, "its entry for 02:00:00:00:03:02 has attribute 8 of a tunnel's forwarding entry"},
		{"a backup port", "ip link add e0 type veth peer e1; ip link set e0 master br0; bridge link set dev p0 backup_port e0", 0, 1, "has attribute 34 of a bridge's port"},
		{"a pod in a VRF", "ip link add vrf0 up type vrf table 9; ip link set p0 master vrf0", 0, 1, "is a port of vrf0, which is not a bridge but of kind vrf"},
		{"a bridge in a VRF", "ip link add vrf0 up type vrf table 9; ip link set br0 master vrf0", 0, 1, "br0 is a port of vrf0, of kind vrf"},
		{"a tunnel in a VRF", "ip link add vrf0 up type vrf table 9; ip link set v0 master vrf0", 1, 0, "is a port of vrf0, of kind vrf"},
		{"a tunnel in a bridge", "ip link add br1 up type bridge; ip link set v0 master br1", 1, 0, "is a port of br1, of kind bridge"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _ := machineAndPod(t, strings.ReplaceAll(overlay, "OPTIONS", ""))
			if !hasOption(t, m, c.more) {
				t.Skip("this kernel cannot")
			}
			topo := topologyOf(t, m)
			refused := slices.ContainsFunc(topo.Refusals, func(r topology.Refusal) bool { return r.Reason == c.refused })
			if len(topo.Pods) != c.pods || len(topo.NextHops) != c.peers || refused != (c.refused != "") || topo.PerPacket != "" {
				t.Errorf("pods %+v, peers %+v, refused %+v, per packet %q", topo.Pods, topo.NextHops, topo.Refusals, topo.PerPacket)
			}
		})
	}
}

// unseen is an attribute that no kernel has yet.
const unseen = 200

func nestedAttr(kind int, parts ...*nl.RtAttr) *nl.RtAttr {
	a := nl.NewRtAttr(kind, nil)
	for _, p := range parts {
		a.AddChild(p)
	}
	return a
}
