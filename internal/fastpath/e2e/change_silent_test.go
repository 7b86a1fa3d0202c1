package e2e

// The host finds the way back to the peer by the marks of its packets alone.
const (
	markedReversePath = `echo 1 > /proc/sys/net/ipv4/conf/{out}/src_valid_mark
		echo 1 > /proc/sys/net/ipv4/conf/{out}/rp_filter
		ip route add {peer} via {hop} dev {out} onlink table 10{n}
		nft 'table ip marks{n} { chain c { type filter hook prerouting priority -150; ip saddr { {pod}, {peer} } meta mark set 10{n}; }; }'
		ip rule add fwmark 10{n} lookup 10{n} pref 10{n}
		ip route add blackhole {peer}`
	unmarkedReversePath = `ip route del blackhole {peer}
		ip rule del pref 10{n}
		nft delete table ip marks{n}
		ip route flush table 10{n}
		echo 0 > /proc/sys/net/ipv4/conf/{out}/rp_filter
		echo 0 > /proc/sys/net/ipv4/conf/{out}/src_valid_mark`
)

// silentChanges are changes that the kernel does not announce, or only in another namespace.
var silentChanges = []change{
	{
		name: "reverse path without the packet's mark", setup: markedReversePath,
		do:       `echo 0 > /proc/sys/net/ipv4/conf/{out}/src_valid_mark`,
		undo:     `echo 1 > /proc/sys/net/ipv4/conf/{out}/src_valid_mark`,
		teardown: unmarkedReversePath,
		out:      delivered, in: dropped,
	},
	{
		name: "reverse path without the packet's mark, on all devices",
		setup: markedReversePath + `
			echo 0 > /proc/sys/net/ipv4/conf/{out}/src_valid_mark
			echo 1 > /proc/sys/net/ipv4/conf/all/src_valid_mark`,
		do:   `echo 0 > /proc/sys/net/ipv4/conf/all/src_valid_mark`,
		undo: `echo 1 > /proc/sys/net/ipv4/conf/all/src_valid_mark`,
		teardown: `echo 0 > /proc/sys/net/ipv4/conf/all/src_valid_mark
			` + unmarkedReversePath,
		out: delivered, in: dropped,
	},
	{
		name: "source that is an address of the machine",
		setup: `echo 1 > /proc/sys/net/ipv4/conf/{out}/accept_local
			ip route add {peer} via {hop} dev {out} onlink table 10{n}
			nft 'table ip marks{n} { chain c { type filter hook prerouting priority -150; iifname "{gate}" meta mark set 10{n}; }; }'
			ip rule add fwmark 10{n} lookup 10{n} pref 10{n}
			ip route add local {peer} dev lo table main`,
		do:   `echo 0 > /proc/sys/net/ipv4/conf/{out}/accept_local`,
		undo: `echo 1 > /proc/sys/net/ipv4/conf/{out}/accept_local`,
		teardown: `ip route del local {peer} dev lo table main
			ip rule del pref 10{n}
			nft delete table ip marks{n}
			ip route flush table 10{n}
			echo 0 > /proc/sys/net/ipv4/conf/{out}/accept_local`,
		out: delivered, in: dropped,
	},
	{
		name: "pod has another MAC",
		do: `nsenter --net={podns} sh -euc 'gate=$(ip route | sed -n "s/default via \([^ ]*\).*/\1/p")
			ip link set eth0 address 02:76:00:00:00:97
			ip neigh replace $gate lladdr {gatemac} dev eth0 nud permanent'`,
		undo: `nsenter --net={podns} sh -euc 'gate=$(ip route | sed -n "s/default via \([^ ]*\).*/\1/p")
			ip link set eth0 address {podmac}
			ip neigh replace $gate lladdr {gatemac} dev eth0 nud permanent'`,
		out: delivered, in: dropped,
	},
}
