package e2e

import "slices"

// vxlanChanges are those of what vxlan devices send each other.
var vxlanChanges = []change{
	{
		// No rule changes: what was let in of the address before says nothing of this one.
		name: "forwarding entry that leads to an address from which nothing is let in", path: "vxlan",
		setup: `nsenter --net={otherns} ip addr add 10.200.0.7{n}/24 dev wire0
			nft 'table ip strangers{n} { chain c { type filter hook input priority 0; ip saddr 10.200.0.7{n} udp dport {udp} drop; }; }'`,
		do: `nsenter --net={otherns} ip link set {out} type vxlan id {vni} local 10.200.0.7{n}
			bridge fdb replace {hopmac} dev {out} dst 10.200.0.7{n} self permanent`,
		undo: `nsenter --net={otherns} ip link set {out} type vxlan id {vni} local {other}
			bridge fdb replace {hopmac} dev {out} dst {other} self permanent`,
		teardown: `nft delete table ip strangers{n}
			nsenter --net={otherns} ip addr del 10.200.0.7{n}/24 dev wire0`,
		out: delivered, in: dropped,
	},
}

// ipipChanges are those of an ipip device.
var ipipChanges = []change{
	{
		name: "ipip device made anew", path: "ipip", rebuild: true,
		do: `ip link del {out}`,
		undo: `ip link add {out} mtu {mtu} type ipip local {address} dev wire0 nopmtudisc
			ip link set {out} up`,
		out: dropped, in: dropped,
	},
	{
		name: "ipip device has another local address", path: "ipip",
		do:   `ip link set {out} type ipip local 10.200.0.7{n}`,
		undo: `ip link set {out} type ipip local {address}`,
		out:  dropped, in: dropped,
	},
	{
		name: "another ipip device takes the packets of the tunnel", path: "ipip",
		do: `ip link add thief{n} type ipip local {address} remote {other} dev wire0
			echo 0 > /proc/sys/net/ipv4/conf/thief{n}/forwarding
			ip link set thief{n} up`,
		undo: `ip link del thief{n}`,
		out:  delivered, in: dropped,
	},
}

// geneveChanges are those of a geneve device.
var geneveChanges = []change{
	{
		name: "geneve device made anew", path: "geneve", rebuild: true,
		do: `ip link del {out}`,
		undo: `ip link add {out} address {outmac} mtu {mtu} type geneve id {vni} remote {other} dstport {udp}
			ip link set {out} up`,
		out: dropped, in: dropped,
	},
	{
		name: "geneve device has another remote", path: "geneve",
		do:   `ip link set {out} type geneve id {vni} remote 10.200.0.7{n}`,
		undo: `ip link set {out} type geneve id {vni} remote {other}`,
		out:  dropped, in: dropped,
	},
	{
		name: "another geneve device takes the packets of the tunnel", path: "geneve",
		do: `ip link add thief{n} type geneve id {vni} remote 10.200.0.7{n} dstport {udp}
			ip link set thief{n} up
			ip link set thief{n} type geneve id {vni} remote {other}`,
		undo: `ip link del thief{n}`,
		out:  delivered, in: dropped,
	},
}

var allChanges = slices.Concat(changes, trackedChanges, silentChanges, vxlanChanges, ipipChanges, geneveChanges)
