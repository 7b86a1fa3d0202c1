package e2e

import "slices"

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

var allChanges = slices.Concat(changes, ipipChanges)
