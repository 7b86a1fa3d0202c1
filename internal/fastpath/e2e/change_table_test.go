package e2e

// changes are the changes that a fast path must follow. The gate is the device
// by which the machine's network takes what a pod sends: the bridge, or the port
// itself where there is none; out is that by which it leaves.
var changes = []change{
	// Rules.
	{
		name: "nft deny",
		do:   `nft 'table ip deny { chain c { type filter hook forward priority 0; meta l4proto udp drop; }; }'`,
		undo: `nft delete table ip deny`,
		out:  dropped, in: dropped,
	},
	{
		name: "nft deny out",
		do:   `nft 'table ip deny{n} { chain c { type filter hook forward priority 0; ip saddr {pod} meta l4proto udp drop; }; }'`,
		undo: `nft delete table ip deny{n}`,
		out:  dropped, in: delivered,
	},
	{
		name: "nft deny behind all translation",
		do:   `nft 'table inet deny { chain c { type filter hook postrouting priority 200; ip daddr 10.244.0.0/16 drop; }; }'`,
		undo: `nft delete table inet deny`,
		out:  dropped, in: dropped,
	},
	{
		name:     "nft element of a set",
		setup:    `nft 'table ip deny{n} { set bad { type ipv4_addr; }; chain c { type filter hook forward priority 0; ip saddr @bad drop; }; }'`,
		do:       `nft 'add element ip deny{n} bad { {pod} }'`,
		undo:     `nft 'delete element ip deny{n} bad { {pod} }'`,
		teardown: `nft delete table ip deny{n}`,
		out:      dropped, in: delivered,
	},
	{
		name: "nft element of a map of verdicts",
		setup: `nft 'table ip deny{n} { map verdicts { type ipv4_addr : verdict; };
			chain c { type filter hook forward priority 0; ip daddr vmap @verdicts; }; }'`,
		do:       `nft 'add element ip deny{n} verdicts { {pod} : drop }'`,
		undo:     `nft 'delete element ip deny{n} verdicts { {pod} }'`,
		teardown: `nft delete table ip deny{n}`,
		out:      delivered, in: dropped,
	},
	{
		name: "iptables-nft deny",
		do:   `iptables-nft -A FORWARD -p udp -j DROP`,
		undo: `iptables-nft -D FORWARD -p udp -j DROP`,
		out:  dropped, in: dropped,
		teardown: `nft delete table ip filter`,
	},
	{
		name: "nft deny on the bridge, out", path: "vxlan geneve",
		do:   `nft 'table bridge deny{n} { chain c { type filter hook prerouting priority 0; iifname "{port}" ether type ip drop; }; }'`,
		undo: `nft delete table bridge deny{n}`,
		out:  dropped, in: delivered,
	},
	{
		name: "nft deny on the bridge, in", path: "vxlan geneve",
		do:   `nft 'table bridge deny{n} { chain c { type filter hook postrouting priority 0; oifname "{port}" ether type ip drop; }; }'`,
		undo: `nft delete table bridge deny{n}`,
		out:  delivered, in: dropped,
	},
	{
		name: "nft deny where the port receives",
		do:   `nft 'table netdev deny{n} { chain c { type filter hook ingress device "{port}" priority 0; meta l4proto udp drop; }; }'`,
		undo: `nft delete table netdev deny{n}`,
		out:  dropped, in: delivered,
	},
	{
		name: "nft deny where the port sends",
		do:   `nft 'table netdev deny{n} { chain c { type filter hook egress device "{port}" priority 0; meta l4proto udp drop; }; }'`,
		undo: `nft delete table netdev deny{n}`,
		out:  delivered, in: dropped,
	},
	{
		name: "nft deny where the wire receives",
		do:   `nft 'table netdev deny { chain c { type filter hook ingress device "wire0" priority 0; meta l4proto { 4, 17 } drop; }; }'`,
		undo: `nft delete table netdev deny`,
		out:  delivered, in: dropped,
	},
	{
		name: "nft deny of what the machine sends, its tunnel with it", path: "vxlan geneve ipip",
		do:   `nft 'table ip deny { chain c { type filter hook output priority 0; meta l4proto { 4, 17 } drop; }; }'`,
		undo: `nft delete table ip deny`,
		out:  dropped, in: delivered,
	},
	{
		name: "nft deny of what is for the machine, its tunnel with it", path: "vxlan geneve ipip",
		do:   `nft 'table ip deny { chain c { type filter hook input priority 0; meta l4proto { 4, 17 } drop; }; }'`,
		undo: `nft delete table ip deny`,
		out:  delivered, in: dropped,
	},
	{
		name: "nft deny in the pod",
		do:   `nsenter --net={podns} nft 'table ip deny { chain c { type filter hook input priority 0; meta l4proto udp drop; }; }'`,
		undo: `nsenter --net={podns} nft delete table ip deny`,
		out:  delivered, in: dropped,
	},
	{
		name: "IPsec policy that blocks",
		do:   `ip xfrm policy add src {peer} dst {pod} dir fwd action block`,
		undo: `ip xfrm policy delete src {peer} dst {pod} dir fwd`,
		out:  delivered, in: dropped,
	},
	// Routes.
	{
		name: "policy rule that drops what is from the pod",
		do:   `ip rule add from {pod} blackhole pref 100`,
		undo: `ip rule del from {pod} blackhole pref 100`,
		out:  dropped, in: delivered,
	},
	{
		name: "policy rule that drops what is for the pod", path: "vxlan geneve",
		do:   `ip rule add iif {out} to {pod} blackhole pref 100`,
		undo: `ip rule del iif {out} to {pod} blackhole pref 100`,
		out:  delivered, in: dropped,
	},
	{
		name:     "mark that a policy rule drops",
		setup:    `ip rule add fwmark 7 blackhole pref 100`,
		do:       `nft 'table ip marks { chain c { type filter hook prerouting priority -150; meta l4proto udp meta mark set 7; }; }'`,
		undo:     `nft delete table ip marks`,
		teardown: `ip rule del fwmark 7 blackhole pref 100`,
		out:      dropped, in: dropped,
	},
	{
		name: "policy rule by TOS, and the pod sets it",
		do: `ip rule add from {pod} tos 0x08 blackhole pref 10{n}
			sleep 0.3
			nsenter --net={podns} nft 'table ip tos { chain c { type filter hook output priority 0; ip dscp set 2; }; }'`,
		undo: `nsenter --net={podns} nft delete table ip tos
			ip rule del pref 10{n}`,
		out: dropped, in: delivered,
	},
	{
		name: "blackhole route by TOS, and the pod sets it",
		do: `ip route add blackhole {peer} tos 0x08
			sleep 0.3
			nsenter --net={podns} nft 'table ip tos { chain c { type filter hook output priority 0; ip dscp set 2; }; }'`,
		undo: `nsenter --net={podns} nft delete table ip tos
			ip route del blackhole {peer} tos 0x08`,
		out: dropped, in: delivered,
	},
	{
		name: "blackhole route to the peer's pod",
		do:   `ip route add blackhole {peer}`,
		undo: `ip route del blackhole {peer}`,
		out:  dropped, in: delivered,
	},
	{
		name: "blackhole route to the pod", path: "vxlan geneve",
		do:   `ip route add blackhole {pod}`,
		undo: `ip route del blackhole {pod}`,
		out:  delivered, in: dropped,
	},
	{
		name: "route to the peer's pod by a device where it is not",
		do:   `ip route add {peer} dev {gate}`,
		undo: `ip route del {peer} dev {gate}`,
		out:  dropped, in: delivered,
	},
	{
		name: "next hop object that turns into a blackhole",
		setup: `echo 0 > /proc/sys/net/ipv4/nexthop_compat_mode
			ip nexthop add id 10{n} via {hop} dev {out} onlink
			ip route add {peer} nhid 10{n}`,
		do:   `ip nexthop replace id 10{n} blackhole`,
		undo: `ip nexthop replace id 10{n} via {hop} dev {out} onlink`,
		teardown: `ip route del {peer} nhid 10{n}
			ip nexthop del id 10{n}`,
		out: dropped, in: delivered,
	},
	// Settings.
	{
		name: "forwarding off",
		do:   `echo 0 > /proc/sys/net/ipv4/ip_forward`,
		undo: `echo 1 > /proc/sys/net/ipv4/ip_forward`,
		out:  dropped, in: dropped,
	},
	{
		name: "forwarding off, of the gate",
		do:   `echo 0 > /proc/sys/net/ipv4/conf/{gate}/forwarding`,
		undo: `echo 1 > /proc/sys/net/ipv4/conf/{gate}/forwarding`,
		out:  dropped, in: delivered,
	},
	{
		name: "forwarding off, of what comes in",
		do:   `echo 0 > /proc/sys/net/ipv4/conf/{out}/forwarding`,
		undo: `echo 1 > /proc/sys/net/ipv4/conf/{out}/forwarding`,
		out:  delivered, in: dropped,
	},
	{
		name: "reverse path filter where the reverse path is elsewhere",
		setup: `ip route add {peer} via {hop} dev {out} onlink table 10{n}
			nft 'table ip marks{n} { chain c { type filter hook prerouting priority -150; iifname "{gate}" meta mark set 10{n}; }; }'
			ip rule add fwmark 10{n} lookup 10{n} pref 10{n}
			ip route add blackhole {peer}`,
		do:   `echo 1 > /proc/sys/net/ipv4/conf/{out}/rp_filter`,
		undo: `echo 0 > /proc/sys/net/ipv4/conf/{out}/rp_filter`,
		teardown: `ip route del blackhole {peer}
			ip rule del pref 10{n}
			nft delete table ip marks{n}
			ip route flush table 10{n}`,
		out: delivered, in: dropped,
	},
	// Neighbours and forwarding entries.
	{
		name: "neighbour: the other machine has another MAC",
		do:   `ip neigh replace {other} lladdr 02:76:00:00:00:98 dev wire0 nud permanent`,
		undo: `ip neigh replace {other} lladdr {othermac} dev wire0 nud permanent`,
		out:  dropped, in: delivered,
	},
	{
		name: "neighbour: the other machine is to be asked for",
		do:   `ip neigh del {other} dev wire0`,
		undo: `ip neigh replace {other} lladdr {othermac} dev wire0 nud permanent`,
		out:  delivered, in: delivered,
	},
	{
		name: "neighbour: the tunnel's next hop is gone", path: "vxlan",
		do:   `ip neigh del {hop} dev {out}`,
		undo: `ip neigh replace {hop} lladdr {hopmac} dev {out} nud permanent`,
		out:  dropped, in: delivered,
	},
	{
		name: "neighbour: the pod has another MAC",
		do:   `ip neigh replace {pod} lladdr 02:76:00:00:00:98 dev {gate} nud permanent`,
		undo: `ip neigh replace {pod} lladdr {podmac} dev {gate} nud permanent`,
		out:  delivered, in: dropped,
	},
	{
		name: "neighbour: the pod is to be asked for",
		do:   `ip neigh del {pod} dev {gate}`,
		undo: `ip neigh replace {pod} lladdr {podmac} dev {gate} nud permanent`,
		out:  delivered, in: delivered,
	},
	{
		name: "neighbour: the pod sends by way of another",
		do:   `nsenter --net={podns} sh -c 'ip neigh replace $(ip route | sed -n "s/default via \([^ ]*\).*/\1/p") lladdr 02:76:00:00:00:98 dev eth0 nud permanent'`,
		undo: `nsenter --net={podns} sh -c 'ip neigh replace $(ip route | sed -n "s/default via \([^ ]*\).*/\1/p") lladdr {gatemac} dev eth0 nud permanent'`,
		out:  dropped, in: delivered,
	},
	{
		name: "forwarding entry gone", path: "vxlan",
		do:   `bridge fdb del {hopmac} dev {out} dst {other} self`,
		undo: `bridge fdb add {hopmac} dev {out} dst {other} self permanent`,
		out:  dropped, in: delivered,
	},
	{
		name: "forwarding entry that leads elsewhere", path: "vxlan", repeated: true,
		do:   `bridge fdb replace {hopmac} dev {out} dst 10.200.0.99 self permanent`,
		undo: `bridge fdb replace {hopmac} dev {out} dst {other} self permanent`,
		out:  dropped, in: delivered,
	},
	{
		name: "forwarding entry of another port", path: "vxlan",
		do:   `bridge fdb replace {hopmac} dev {out} dst {other} port 9999 self permanent`,
		undo: `bridge fdb replace {hopmac} dev {out} dst {other} self permanent`,
		out:  dropped, in: delivered,
	},
	// Devices.
	{
		name: "port down", rebuild: true,
		do:   `ip link set {port} down`,
		undo: `ip link set {port} up`,
		out:  dropped, in: dropped,
	},
	{
		name: "wire down", rebuild: true,
		do:   `ip link set wire0 down`,
		undo: `ip link set wire0 up`,
		out:  dropped, in: dropped,
	},
	{
		name: "wire takes smaller packets",
		do:   `ip link set wire0 mtu 1300`,
		undo: `ip link set wire0 mtu 1500`,
		out:  delivered, in: delivered,
	},
	{
		name: "tunnel down", path: "vxlan geneve ipip", rebuild: true,
		do:   `ip link set {out} down`,
		undo: `ip link set {out} up`,
		out:  dropped, in: dropped,
	},
	{
		name: "bridge down", path: "vxlan geneve", rebuild: true,
		do:   `ip link set {gate} down`,
		undo: `ip link set {gate} up`,
		out:  dropped, in: dropped,
	},
	{
		name: "device that leads out has another MAC", path: "vxlan geneve routed", rebuild: true,
		do: `ip link set {out} address 02:76:00:00:00:99
			ip neigh replace {hop} lladdr {hopmac} dev {out} nud permanent`,
		undo: `ip link set {out} address {outmac}`,
		out:  delivered, in: dropped,
	},
	{
		name: "bridge has another MAC", path: "vxlan geneve", rebuild: true,
		do:   `ip link set {gate} address 02:76:00:00:00:99`,
		undo: `ip link set {gate} address {gatemac}`,
		out:  dropped, in: delivered,
	},
	{
		name: "bridge has no address", path: "vxlan geneve", rebuild: true,
		do:   `ip addr flush dev {gate}`,
		undo: `true`,
		out:  delivered, in: dropped,
	},
	{
		name: "machine has another address, its tunnel the one before", path: "vxlan geneve ipip", rebuild: true,
		do: `ip addr flush dev wire0
			ip addr add 10.200.0.77/24 dev wire0`,
		undo: `ip addr flush dev wire0`,
		out:  dropped, in: dropped,
	},
	{
		name: "machine has another address", path: "routed", rebuild: true,
		do: `ip addr add 10.200.0.77/25 dev wire0
			ip addr del {address}/24 dev wire0`,
		undo: `ip addr add {address}/24 dev wire0
			ip addr del 10.200.0.77/25 dev wire0`,
		out: delivered, in: delivered,
	},
	{
		name: "port off the bridge", path: "vxlan geneve",
		do:   `ip link set {port} nomaster`,
		undo: `ip link set {port} master {gate}`,
		out:  dropped, in: dropped,
	},
	{
		name: "port blocked by the bridge", path: "vxlan geneve",
		do:   `bridge link set dev {port} state 0`,
		undo: `bridge link set dev {port} state 3`,
		out:  dropped, in: dropped,
	},
	{
		name: "tunnel made anew", path: "vxlan", rebuild: true,
		do: `ip link del {out}`,
		undo: `ip link add {out} address {outmac} mtu {mtu} type vxlan id {vni} local {address} dev wire0 dstport {udp} nolearning
			ip link set {out} up`,
		out: dropped, in: dropped,
	},
	{
		name: "bridge made anew", path: "vxlan geneve", rebuild: true,
		do: `ip link del {gate}`,
		undo: `ip link add {gate} address {gatemac} mtu {mtu} type bridge
			ip link set {gate} up
			ip link set {port} master {gate}`,
		out: dropped, in: dropped,
	},
}
