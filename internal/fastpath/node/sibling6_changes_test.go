package node_test

import "testing"

// siblingChanges6 are those over IPv6; the wirings are of siblingWirings6.
var siblingChanges6 = []siblingChange{
	{name: "rule", do: `nft 'table ip6 deny { chain c { type filter hook forward priority 0; meta l4proto udp drop; }; }'`, undo: "nft delete table ip6 deny"},
	{name: "rule of both versions", do: `nft 'table inet deny { chain c { type filter hook forward priority 0; ip6 daddr fd00:f4:1::3 drop; }; }'`, undo: "nft delete table inet deny"},
	{name: "rule for what comes back", do: `nft 'table ip6 deny { chain c { type filter hook forward priority 0; ip6 saddr fd00:f4:1::3 udp sport 7777 drop; }; }'`, undo: "nft delete table ip6 deny"},
	{name: "rule behind the forwarding", do: `nft 'table ip6 deny { chain c { type filter hook postrouting priority 200; ip6 nexthdr udp drop; }; }'`, undo: "nft delete table ip6 deny"},
	{name: "rule that does not meet it", do: `nft 'table ip6 deny { chain c { type filter hook forward priority 0; ip6 saddr fd00:f4:1::9 drop; }; }'`, undo: "nft delete table ip6 deny", unchanged: true},
	{name: "rule for IPv4", do: `nft 'table ip deny { chain c { type filter hook forward priority 0; meta l4proto udp drop; }; }'`, undo: "nft delete table ip deny", unchanged: true},
	{name: "rule by the hop limit", do: `nft 'table ip6 deny { chain c { type filter hook forward priority 0; ip6 hoplimit < 255 meta l4proto udp drop; }; }'`, undo: "nft delete table ip6 deny"},
	{name: "rule of the bridge", do: `nft 'table bridge deny { chain c { type filter hook forward priority 0; ether type ip6 meta l4proto udp drop; }; }'`, undo: "nft delete table bridge deny"},
	{name: "rule of the bridge where frames come in", do: `nft 'table bridge deny { chain c { type filter hook prerouting priority 0; ether type ip6 meta l4proto udp drop; }; }'`, undo: "nft delete table bridge deny"},
	{name: "rule of the bridge for IPv4", do: `nft 'table bridge deny { chain c { type filter hook forward priority 0; ether type ip meta l4proto udp drop; }; }'`, undo: "nft delete table bridge deny", unchanged: true},
	{name: "rule of the bridge for one port", wiring: 1, do: `nft 'table bridge deny { chain c { type filter hook forward priority 0; oifname "veth9" ether type ip6 meta l4proto udp drop; }; }'`, undo: "nft delete table bridge deny"},
	{name: "rule for IPv6 where bridges ask none", wiring: 1, do: `nft 'table ip6 deny { chain c { type filter hook forward priority 0; meta l4proto udp drop; }; }'`, undo: "nft delete table ip6 deny", unchanged: true},
	{name: "bridges ask the rules for IPv6", wiring: 1, setup: `nft 'table ip6 deny { chain c { type filter hook forward priority 0; meta l4proto udp drop; }; }'`,
		do: "echo 1 > /proc/sys/net/bridge/bridge-nf-call-ip6tables", undo: "echo 0 > /proc/sys/net/bridge/bridge-nf-call-ip6tables; nft delete table ip6 deny"},
	{name: "the bridge asks the rules for IPv6", wiring: 1, setup: `nft 'table ip6 deny { chain c { type filter hook forward priority 0; meta l4proto udp drop; }; }'`,
		do: "ip link set cni0 type bridge nf_call_ip6tables 1", undo: "ip link set cni0 type bridge nf_call_ip6tables 0; nft delete table ip6 deny"},
	{name: "isolated ports", do: "bridge link set dev veth0 isolated on; bridge link set dev veth9 isolated on", undo: "bridge link set dev veth0 isolated off; bridge link set dev veth9 isolated off"},
	{name: "port that does not forward", do: "bridge link set dev veth9 state 0", undo: "bridge link set dev veth9 state 3"},
	{name: "port that learns from nobody", do: "bridge fdb replace 02:00:00:00:ee:03 dev veth9 master static; bridge link set dev veth9 learning off locked on; bridge fdb del 02:00:00:00:ee:03 dev veth9 master",
		undo: "bridge link set dev veth9 learning on locked off"},
	{name: "forwarding entry", do: "bridge fdb replace 02:00:00:00:ee:03 dev veth0 master static sticky", undo: "bridge fdb del 02:00:00:00:ee:03 dev veth0 master; bridge fdb replace 02:00:00:00:ee:03 dev veth9 master dynamic"},
	{name: "port that is taken off", do: "ip link set veth9 nomaster", undo: "ip link set veth9 master cni0"},
	{name: "device down", do: "ip link set veth9 down", undo: "ip link set veth9 up"},
	{name: "chain where a port sends", do: `nft 'table netdev deny { chain c { type filter hook egress device "veth9" priority 0; meta l4proto udp drop; }; }'`, undo: "nft delete table netdev deny"},
	{name: "chain where a port receives", do: `nft 'table netdev deny { chain c { type filter hook ingress device "veth0" priority 0; meta l4proto udp drop; }; }'`, undo: "nft delete table netdev deny"},
	{name: "connections forgotten that rules let in no more", setup: `nft 'table ip6 deny { chain c { type filter hook forward priority 0; ct state new meta l4proto udp drop; }; }'`, forgets: true, undo: "nft delete table ip6 deny"},

	{name: "routed: rule", wiring: 2, do: `nft 'table ip6 deny { chain c { type filter hook forward priority 0; meta l4proto udp drop; }; }'`, undo: "nft delete table ip6 deny"},
	{name: "routed: route", wiring: 2, do: "ip route add blackhole fd00:f4:1::3/128 metric 1", undo: "ip route del blackhole fd00:f4:1::3/128 metric 1"},
	{name: "routed: route that ends", wiring: 2, do: "ip route del fd00:f4:1::3/128 dev veth9", undo: "ip route add fd00:f4:1::3/128 dev veth9"},
	{name: "routed: policy rule", wiring: 2, do: "ip -6 rule add pref 7 from fd00:f4:1::3 to fd00:f4:1::2 blackhole", undo: "ip -6 rule del pref 7"},
	{name: "routed: forwarding", wiring: 2, do: "echo 0 > /proc/sys/net/ipv6/conf/all/forwarding", undo: "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding"},
	{name: "routed: no IPv6", wiring: 2, do: "echo 1 > /proc/sys/net/ipv6/conf/veth9/disable_ipv6", undo: "echo 0 > /proc/sys/net/ipv6/conf/veth9/disable_ipv6; ip addr add fe80::1/64 dev veth9 nodad; ip route add fd00:f4:1::3/128 dev veth9"},
	{name: "routed: neighbour", wiring: 2, do: "ip neigh replace fd00:f4:1::3 lladdr 02:00:00:00:99:99 dev veth9 nud permanent", undo: "ip neigh replace fd00:f4:1::3 lladdr 02:00:00:00:ee:03 dev veth9 nud reachable"},
	{name: "routed: IPsec policy", wiring: 2, do: "ip xfrm policy add src fd00:f4:1::2/128 dst fd00:f4:1::3/128 dir fwd action block", undo: "ip xfrm policy del src fd00:f4:1::2/128 dst fd00:f4:1::3/128 dir fwd"},
}

// The same over IPv6.
func TestSiblingFollowsChangesIPv6(t *testing.T) {
	followSiblingChanges(t, siblingWirings6[:3], siblingChanges6)
}
