package e2e

import (
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// changes6 are the changes that a fast path for IPv6 must follow, as changes are those for IPv4.
var changes6 = []change{
	// Rules.
	{
		name: "nft deny of ip6",
		do:   `nft 'table ip6 deny { chain c { type filter hook forward priority 0; meta l4proto udp drop; }; }'`,
		undo: `nft delete table ip6 deny`,
		out:  dropped, in: dropped,
	},
	{
		name: "nft deny of inet, out",
		do:   `nft 'table inet deny{n} { chain c { type filter hook forward priority 0; ip6 saddr {pod} meta l4proto udp drop; }; }'`,
		undo: `nft delete table inet deny{n}`,
		out:  dropped, in: delivered,
	},
	{
		name: "nft deny by the protocol behind the header",
		do:   `nft 'table ip6 deny { chain c { type filter hook postrouting priority 200; ip6 nexthdr udp drop; }; }'`,
		undo: `nft delete table ip6 deny`,
		out:  dropped, in: dropped,
	},
	{
		name:     "nft element of a set",
		setup:    `nft 'table ip6 deny{n} { set bad { type ipv6_addr; }; chain c { type filter hook forward priority 0; ip6 saddr @bad drop; }; }'`,
		do:       `nft 'add element ip6 deny{n} bad { {pod} }'`,
		undo:     `nft 'delete element ip6 deny{n} bad { {pod} }'`,
		teardown: `nft delete table ip6 deny{n}`,
		out:      dropped, in: delivered,
	},
	{
		name: "ip6tables-nft deny",
		do:   `ip6tables-nft -A FORWARD -p udp -j DROP`,
		undo: `ip6tables-nft -D FORWARD -p udp -j DROP`,
		out:  dropped, in: dropped,
		teardown: `nft delete table ip6 filter`,
	},
	{
		name: "nft deny by the hop limit",
		do:   `nft 'table ip6 deny { chain c { type filter hook forward priority 0; ip6 hoplimit < 255 drop; }; }'`,
		undo: `nft delete table ip6 deny`,
		out:  dropped, in: dropped,
	},
	{
		name: "nft deny on the pod's device",
		do:   `nft 'table netdev deny{n} { chain c { type filter hook ingress device "{port}" priority 0; ip6 saddr {pod} drop; }; }'`,
		undo: `nft delete table netdev deny{n}`,
		out:  dropped, in: delivered,
	},
	// Routes, policy rules and forwarding.
	{
		name: "a route of one peer ends",
		do:   `ip -6 route add blackhole {peer}/128`,
		undo: `ip -6 route del blackhole {peer}/128`,
		out:  dropped, in: delivered,
	},
	{
		name: "a route of the pod ends",
		do:   `ip -6 route del {pod}/128 dev {port}`,
		undo: `ip -6 route add {pod}/128 dev {port}`,
		out:  delivered, in: dropped,
	},
	{
		name: "policy rule",
		do:   `ip -6 rule add from {pod} prio 10{n} blackhole`,
		undo: `ip -6 rule del prio 10{n}`,
		out:  dropped, in: delivered,
	},
	{
		name: "no forwarding",
		do:   `sysctl -qw net.ipv6.conf.all.forwarding=0`,
		undo: `sysctl -qw net.ipv6.conf.all.forwarding=1`,
		out:  dropped, in: dropped,
	},
	{
		name: "no IPv6 on the wire",
		do:   `sysctl -qw net.ipv6.conf.{out}.disable_ipv6=1`,
		undo: `sysctl -qw net.ipv6.conf.{out}.disable_ipv6=0
			ip -6 addr replace {own6}/64 dev {out} nodad
			ip -6 neigh replace {hop} lladdr {hopmac} dev {out}
			ip -6 route replace {block6} via {hop} dev {out}`,
		out: dropped, in: dropped,
	},
	{
		name: "a route that ends",
		do: `ip -6 route del {block6} via {hop} dev {out}; ip -6 route add {block6} via {hop} dev {out} expires 1
			sleep 1.2`,
		undo: `ip -6 route replace {block6} via {hop} dev {out}`,
		out:  dropped, in: delivered,
	},
	// Neighbours.
	{
		name: "another MAC of the next hop",
		do:   `ip -6 neigh replace {hop} lladdr 02:00:00:00:00:99 dev {out}`,
		undo: `ip -6 neigh replace {hop} lladdr {hopmac} dev {out}`,
		out:  dropped, in: delivered,
	},
	{
		name: "another MAC of the pod",
		do:   `ip -6 neigh replace {pod} lladdr 02:00:00:00:00:99 dev {port}`,
		undo: `ip -6 neigh replace {pod} lladdr {podmac} dev {port}`,
		out:  delivered, in: dropped,
	},
	{
		name: "IPsec policy",
		do:   `ip xfrm policy add src {pod}/128 dst {peer}/128 dir fwd action block`,
		undo: `ip xfrm policy del src {pod}/128 dst {peer}/128 dir fwd`,
		out:  dropped, in: delivered,
	},
	// Where connections are tracked.
	{
		name: "connections forgotten", services: true,
		act: forgetConnections,
		out: delivered, in: delivered,
	},
	{
		name: "connections forgotten, and new ones denied", services: true, answered: true,
		setup:    `nft 'table ip6 new { chain c { type filter hook forward priority 0; ct state new meta l4proto udp drop; }; }'`,
		act:      forgetConnections,
		teardown: `nft delete table ip6 new`,
		out:      dropped, in: dropped,
		undo: `nft flush chain ip6 new c`,
	},
	{
		name: "nft deny of those that are established", services: true,
		do:   `nft 'table ip6 deny { chain c { type filter hook forward priority 0; ct state established meta l4proto udp drop; }; }'`,
		undo: `nft delete table ip6 deny`,
		out:  dropped, in: dropped, answered: true,
	},
}

// tunnelChanges6 are those that concern a tunnel over IPv6, or its own packets.
var tunnelChanges6 = []change{
	{
		name: "nft deny of the tunnel's packets, out",
		do:   `nft 'table ip6 deny { chain c { type filter hook output priority 0; udp dport {udp} drop; }; }'`,
		undo: `nft delete table ip6 deny`,
		out:  dropped, in: delivered,
	},
	{
		name: "nft deny of the tunnel's packets, in",
		do:   `nft 'table ip6 deny { chain c { type filter hook input priority 0; udp dport {udp} drop; }; }'`,
		undo: `nft delete table ip6 deny`,
		out:  delivered, in: dropped,
	},
	{
		name: "nft deny of the tunnel's packets by a mark of the pods'",
		do: `nft 'table ip6 deny { chain f { type filter hook forward priority 0; ip6 saddr fd00:f4::/32 meta mark set 7; }
			chain c { type filter hook output priority 0; meta mark 7 udp dport {udp} drop; }; }'`,
		undo: `nft delete table ip6 deny`,
		out:  dropped, in: delivered,
	},
	{
		name: "nft deny of the pods' packets by a mark of the tunnel's",
		do: `nft 'table ip6 deny { chain i { type filter hook input priority 0; udp dport {udp} meta mark set 7; }
			chain f { type filter hook forward priority 0; meta mark 7 drop; }; }'`,
		undo: `nft delete table ip6 deny`,
		out:  delivered, in: dropped,
	},
	{
		name: "policy rule for the tunnel's packets by a mark of the pods'",
		do: `ip -6 rule add fwmark 7 prio 107 blackhole
			nft 'table ip6 marks { chain f { type filter hook forward priority 0; ip6 saddr fd00:f4::/32 meta mark set 7; }; }'`,
		undo: `nft delete table ip6 marks; ip -6 rule del prio 107`,
		out:  dropped, in: delivered,
	},
	{
		name: "another host behind the forwarding entry",
		do:   `bridge fdb replace {hopmac} dev {out} dst fd00:c8::99`,
		undo: `bridge fdb replace {hopmac} dev {out} dst {other6}`,
		out:  dropped, in: delivered,
	},
	{
		name: "no forwarding entry",
		do:   `bridge fdb del {hopmac} dev {out} dst {other6}`,
		undo: `bridge fdb replace {hopmac} dev {out} dst {other6}`,
		out:  dropped, in: delivered,
	},
	{
		name: "another device to the other host",
		do: `ip link add aside0 type veth peer name aside1
			ip link set aside1 up
			ip link set aside0 up
			ip -6 route add {other6} dev aside0`,
		undo: `ip link del aside0`,
		out:  dropped, in: delivered,
	},
	{
		name: "no tunnel",
		do:   `ip link set {out} down`,
		undo: `ip link set {out} up
			ip -6 addr replace {own6}/64 dev {out} nodad
			ip -6 neigh replace {hop} lladdr {hopmac} dev {out} nud permanent
			ip -6 route replace {block6} via {hop} dev {out}`,
		out: dropped, in: dropped,
	},
	{
		name: "another MAC of the tunnel",
		do:   `ip link set {out} address 02:00:00:00:00:98`,
		undo: `ip link set {out} address {outmac}
			ip -6 neigh replace {hop} lladdr {hopmac} dev {out} nud permanent`,
		out: dropped, in: dropped, // the kernel forgets the neighbours, too
	},
}

// track6 has machines track connections over IPv6.
func track6(t testing.TB, l *lab.Lab) {
	t.Helper()
	for _, m := range l.Machines {
		shellIn(t, m.Namespace, "nft 'table ip6 track { chain c { type filter hook forward priority 10; ct state established,new accept; }; }'")
	}
}

// Whatever changes of IPv6 on a machine while flows are carried, their packets end where the slow path
// would take them, soon after the change; and when it is taken back they are carried again.
func TestFastPathFollowsChangesOfIPv6(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	for _, tracked := range []bool{false, true} {
		l, flows := steadyLab6(t, tracked, false)
		checkChanges6(t, changes6, tracked, l, flows)
	}
}

// So it is where IPv6 is in VXLAN over IPv6, also for changes of the tunnel and of what its own packets pass.
func TestFastPathFollowsChangesOfIPv6InTunnel(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	for _, tracked := range []bool{false, true} {
		l, flows := steadyLab6(t, tracked, true)
		checkChanges6(t, slices.Concat(changes6, tunnelChanges6), tracked, l, flows)
	}
}

func checkChanges6(t *testing.T, all []change, tracked bool, l *lab.Lab, flows []*steady) {
	t.Helper()
	for n, s := range all {
		if s.services == tracked {
			t.Run(s.name, func(t *testing.T) { s.check(t, l, flows, n%len(l.Machines)) })
		}
	}
}

// steadyLab6 raises a routed path with IPv6 and its fast twin, and lets a flow begin between the pods of
// each. tracked has the machines track connections, tunnelled has the packets in VXLAN over IPv6.
func steadyLab6(t *testing.T, tracked, tunnelled bool) (*lab.Lab, []*steady) {
	t.Helper()
	l := testenv.Lab(t, lab.Options{Paths: twins([]string{"routed+fast"})})
	if tracked {
		track6(t, l)
	}
	six := withIPv6(t, l, tunnelled)
	var flows []*steady
	for _, arm := range six.Arms {
		s := steadyFlow(t, arm)
		s.oneWay = oneWayFlows(t, arm)
		flows = append(flows, s)
	}
	return six, flows
}
