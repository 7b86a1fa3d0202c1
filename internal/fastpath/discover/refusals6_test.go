package discover_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Nodes with both versions of IP.
const (
	hostGateway6 = hostGateway + `
		six cni0 cni0
		ip addr add fd00:f4::1/64 dev cni0 nodad
		ip route add fd00:f4:2::/64 via fd00:c8::2 dev eth0
	`
	calico6 = calico + `
		six cali2 cali3
		ip route add fd00:f4::2/128 dev cali2
		ip route add fd00:f4::3/128 dev cali3
		ip route add fd00:f4:2::/64 via fd00:c8::2 dev eth0
	`
	flannel6 = flannel + `
		six cni0 cni0
		ip addr add fd00:f4::1/64 dev cni0 nodad
		ip link add flannel-v6.1 address 02:00:00:00:c6:01 mtu 1430 type vxlan id 1 dstport 8472 local fd00:c8::1 dev eth0 nolearning
		ip addr add fd00:f4::/128 dev flannel-v6.1 nodad
		ip link set flannel-v6.1 up
		ip neigh add fd00:f4:2:: lladdr 02:00:00:00:c6:02 dev flannel-v6.1 nud permanent
		bridge fdb add 02:00:00:00:c6:02 dev flannel-v6.1 dst fd00:c8::2
		ip route add fd00:f4:2::/64 via fd00:f4:2:: dev flannel-v6.1 onlink
	`
)

// refusals6 are wirings of which something of IPv6 must not be touched.
var refusals6 = []refusal{
	{name: "a pod with two addresses of IPv6", family: topology.IPv6, base: hostGateway6, script: "ip neigh add fd00:f4::9 lladdr 02:00:00:00:bb:02 dev cni0", what: "veth2", reason: "several addresses (fd00:f4::2, fd00:f4::9)"},
	{name: "a pod nobody has heard over IPv6", family: topology.IPv6, base: hostGateway6, script: "ip neigh del fd00:f4::2 dev cni0", what: "veth2", reason: "not known yet", waits: true},
	{name: "a filter of IPv6 to the pod", family: topology.IPv6, base: hostGateway6, script: "tc qdisc add dev veth2 clsact; tc filter add dev veth2 egress protocol ipv6 prio 7 u32 match u32 0 0 flowid 1:1", what: "veth2", reason: "has tc filters at its egress"},
	{name: "a route of a pod's device that ends", family: topology.IPv6, base: calico6, script: "ip route add fd00:98::/64 dev cali2 expires 600", what: "cali2", reason: "the route to fd00:98::/64 in table 254 has a lifetime"},

	{name: "a node that forwards no IPv6", family: topology.IPv6, base: hostGateway6, script: "echo 0 > /proc/sys/net/ipv6/conf/all/forwarding", what: "off", reason: "this node does not forward IPv6 packets (net.ipv6.conf.all.forwarding is 0"},
	{name: "a rule by the hop limit", family: topology.IPv6, base: hostGateway6, script: "nft 'table ip6 x { chain c { type filter hook forward priority 0; ip6 hoplimit 1 drop; }; }'", what: "off", reason: "(ip6 x c handle 2: bytes 7 to 7 of a header)"},
	{name: "a rule by the flow label", family: topology.IPv6, base: hostGateway6, script: "nft 'table ip6 x { chain c { type filter hook forward priority 0; ip6 flowlabel 7 drop; }; }'", what: "off", reason: "(ip6 x c handle 2: bytes 1 to 3 of a header)"},
	{name: "a limit of ip6tables", family: topology.IPv6, base: hostGateway6, script: "ip6tables-nft -A FORWARD -m limit --limit 10/s -j ACCEPT", what: "off", reason: "(ip6 filter FORWARD handle 2: "},
	{name: "a policy rule of IPv6 by TOS", family: topology.IPv6, base: hostGateway6, script: "ip -6 rule add tos 0x08 blackhole pref 100", what: "off", reason: "policy rule 100 depends on the TOS"},
	{name: "IPsec of IPv6", family: topology.IPv6, base: hostGateway6, script: "ip xfrm policy add src fd00:97::/64 dst fd00:97::1 dir out action allow", what: "off", reason: "IPsec"},
	{name: "no other node over IPv6", family: topology.IPv6, base: hostGateway6, script: "ip route del fd00:f4:2::/64", what: "off", reason: "no IPv6 route leads to pods of other nodes"},

	{name: "a route of the wire that ends", family: topology.IPv6, base: hostGateway6, script: "ip route add fd00:98::/64 via fd00:c8::9 dev eth0 expires 600", what: "fd00:c8::2", reason: "the route to fd00:98::/64 in table 254 has a lifetime"},
	{name: "a route of IPv6 with several next hops", family: topology.IPv6, base: hostGateway6, script: "ip route add fd00:98::/64 nexthop via fd00:c8::2 dev eth0 nexthop via fd00:c8::3 dev eth0", what: "fd00:c8::2", reason: "has several next hops"},
	{name: "a wire that does not forward IPv6", family: topology.IPv6, base: hostGateway6, script: "echo 0 > /proc/sys/net/ipv6/conf/eth0/forwarding", what: "fd00:c8::2", reason: "does not forward IPv6 (net.ipv6.conf.eth0.forwarding is 0)"},
	{name: "a chain for IPv6 where the wire sends", family: topology.IPv6, base: hostGateway6, script: "nft 'table netdev x { chain c { type filter hook egress device eth0 priority 0; ip6 version 6 accept; }; }'", what: "fd00:c8::2", reason: "eth0 has an nftables chain at its egress"},
	{name: "a next hop of IPv6 nobody has heard", family: topology.IPv6, base: hostGateway6, script: "ip neigh del fd00:c8::2 dev eth0", what: "fd00:c8::2", reason: "is not known yet", waits: true},

	{name: "a peer of a tunnel over IPv6 with a port of its own", family: topology.IPv6, base: flannel6, script: "bridge fdb replace 02:00:00:00:c6:02 dev flannel-v6.1 dst fd00:c8::2 port 4790", what: "fd00:c8::2", reason: "its entry for 02:00:00:00:c6:02 has"},
	{name: "a peer of a tunnel over IPv6 by another device", family: topology.IPv6, base: flannel6, script: "wire eth1 11; ip route add fd00:c8::2/128 dev eth1", what: "fd00:c8::2", reason: "its peer fd00:c8::2 is reached by eth1, and not by eth0, which it is bound to"},
	{name: "a peer of a tunnel over IPv6 by several next hops", family: topology.IPv6, base: flannel6, script: "for n in 5 6; do ip route add fd00:f4:$n::/64 via fd00:f4:2:: dev flannel-v6.1 onlink; done; ip route add fd00:c8::2/128 nexthop via fd00:c8::3 dev eth0 nexthop via fd00:c8::4 dev eth0", what: "fd00:c8::2", reason: "the route to its peer fd00:c8::2 has several next hops"},
	{name: "a filter where a tunnel over IPv6 receives", family: topology.IPv6, base: flannel6, script: "tc qdisc add dev flannel-v6.1 clsact; tc filter add dev flannel-v6.1 ingress protocol ipv6 prio 7 u32 match u32 0 0 flowid 1:1", what: "fd00:c8::2", reason: "flannel-v6.1 has tc filters at its ingress"},

	{name: "IPv6 in VXLAN over IPv4", family: topology.IPv6, base: flannel6, script: "ip route add fd00:f4:3::/64 via fe80::9 dev flannel.1 onlink", what: "left flannel.1", reason: "leads to fd00:f4:3::/64 by VXLAN over IPv4"},
	{name: "IPv6 without the tunnel", family: topology.IPv6, base: flannel6, script: "ip route add fd00:f4:3::/64 via fd00:c8::3 dev eth0; ip route add fd00:f4:4::/64 via fd00:f4:2:: dev flannel-v6.1 onlink", what: "left eth0", reason: "leads to fd00:f4:3::/64 without the tunnel: the fast path uses the tunnel only, which is flannel-v6.1"},
	{name: "IPv6 through a pod", family: topology.IPv6, base: hostGateway6, script: "ip route add fd00:98::/64 via fd00:f4::2 dev cni0", what: "left cni0", reason: "leads to fd00:98::/64 through a pod"},
}

// Without anything in the way, all of IPv6 is carried there.
func TestFindsWiringsOfIPv6(t *testing.T) {
	w := newWriter(t)
	for i, c := range []struct{ base, kind, tunnel string }{{hostGateway6, fastpath.Routed6, ""}, {calico6, fastpath.Routed6, ""}, {flannel6, fastpath.VXLAN6, "flannel-v6.1"}} {
		s := newSite(t, w, i)
		testenv.Must(t, s.sh(c.base))
		if p := s.plan(t, topology.IPv6); !p.CarriesAll() || p.Kind != c.kind || p.Tunnel != c.tunnel || len(p.Pods) != 2 || len(p.Peers) != 1 {
			t.Errorf("%s: planned %+v", c.base, p)
		}
	}
}
