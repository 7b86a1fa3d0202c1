package topology

import (
	"github.com/venturi-net/venturi/internal/fastpath/allowlist"
	"github.com/venturi-net/venturi/internal/fastpath/readers"
)

// Allowlist lists the attributes and kinds of routes, neighbours, tunnels and traffic control that
// are proven safe.
func Allowlist() []allowlist.Row {
	rows := []allowlist.Row{
		{Kind: "selector of a policy rule", Names: allowlist.Names(flowInvariantSelectors), Test: "TestPerPacketRoutes"},
		{Kind: "action of a policy rule", Names: allowlist.Names(provenRuleActions), Test: "TestUnprovenRuleActions"},
		{Kind: "queueing discipline of a pod", Names: allowlist.Keys(plainQdiscs), Test: "TestFastPathRefuses"},
		{Kind: "queueing discipline of the wire", Names: allowlist.Keys(provenQueues), Test: "TestReadersOfWire"},
		{Kind: "wire of a node that somebody else has wired", Names: allowlist.Keys(provenWires), Test: "TestUnprovenStacks"},
		{Kind: "mode of a bond as the wire", Names: provenBondModes, Test: "TestUnprovenLinks"},
		{Kind: "xmit_hash_policy of a bond as the wire", Names: provenBondPolicies, Test: "TestUnprovenLinks"},
	}
	for _, a := range topologyAttributes {
		rows = append(rows, allowlist.Row{Kind: "attribute of " + a.Object, Names: allowlist.Names(a.Names), Test: a.Test})
	}
	return append(rows, readers.Allowlist()...)
}

var (
	provenRoutes  = allowlist.Attrs{Object: "a route", Names: allowlist.NamesFrom(1, "destination", "", "", "device", "gateway", "priority", "source", "metrics", "", "", "realms", "cache", "", "", "table", "", "", "", "", "preference", "", "", "", "pad", "", "ttl propagation", "", "", "", "next hop"), Test: "TestUnprovenRoutes"}
	provenMetrics = allowlist.Attrs{Object: "the metrics of a route", Names: allowlist.NamesFrom(1, "lock", "mtu", "window", "rtt", "rttvar", "ssthresh", "cwnd", "advmss", "reordering", "hoplimit",
		"initcwnd", "features", "rto_min", "initrwnd", "quickack", "congctl", "fastopen_no_cookie"), Test: "TestUnprovenRoutes"}
	provenNexthop   = allowlist.Attrs{Object: "a next hop", Names: allowlist.NamesFrom(1, "id", "", "", "blackhole", "device", "gateway"), Test: "TestUnprovenRoutes"}
	provenNeighbour = allowlist.Attrs{Object: "a neighbour", Names: allowlist.NamesFrom(1, "address", "MAC", "cache", "probes", "", "", "", "", "", "", "", "protocol", "", "", "flags"), Test: "TestUnprovenNeighbours"}
	provenPort      = allowlist.Attrs{Object: "a bridge's forwarding entry", Names: allowlist.NamesFrom(1, "", "MAC", "cache", "", "VLAN", "", "", "", "master", "", "", "protocol", "", "", "flags"), Test: "TestUnprovenNeighbours"}
	provenTunnel    = allowlist.Attrs{Object: "a tunnel's forwarding entry", Names: allowlist.NamesFrom(1, "address", "MAC", "cache", "", "", "", "", "", "master", "", "", "protocol", "", "", "flags"), Test: "TestUnprovenNeighbours"}
	provenVXLAN     = allowlist.Attrs{Object: "a vxlan device", Names: allowlist.NamesFrom(1, "id", "group", "device", "local", "ttl", "tos", "learning", "ageing", "limit", "ports", "proxy", "rsc", "l2miss", "l3miss", "port",
		"group6", "local6", "udpcsum", "udp6zerocsumtx", "udp6zerocsumrx", "remcsumtx", "remcsumrx", "gbp", "remcsum_nopartial", "external", "label", "gpe", "ttl inherit", "df",
		"vnifilter", "localbypass", "label policy", "reserved bits", "mcroute"), Test: "TestUnprovenTunnels"}
	provenIPIP = allowlist.Attrs{Object: "an ipip device", Names: allowlist.NamesFrom(1, "device", "local", "remote", "ttl", "tos", "", "", "", "protocol", "pmtudisc", "", "", "", "",
		"encap", "encap flags", "encap sport", "encap dport", "external", "fwmark"), Test: "TestUnprovenIPIP"}
	provenGeneve = allowlist.Attrs{Object: "a geneve device", Names: allowlist.NamesFrom(1, "id", "remote", "ttl", "tos", "port", "external", "remote6", "udpcsum", "udp6zerocsumtx", "udp6zerocsumrx",
		"label", "ttl inherit", "df", "innerprotoinherit", "port range", "gro hint"), Test: "TestUnprovenGeneve"}
	topologyAttributes = []*allowlist.Attrs{&provenRoutes, &provenMetrics, &provenNexthop, &provenNeighbour, &provenPort, &provenTunnel, &provenVXLAN, &provenGeneve, &provenIPIP, &provenBridge, &provenBridgePort, &provenNetkit, &provenVeth, &provenVLAN, &provenBond, &provenBondPort}
)

// provenQueues are the queueing disciplines that are safe on the wire: they read only fields that
// packets of the fast path have as well, but for options of some ([readers.QueueOptions]). The value is
// true if filters of the discipline can also read other fields.
var provenQueues = map[string]bool{
	"noqueue": false, "pfifo_fast": false, "pfifo": false, "bfifo": false, "mq": false, "fq": false, "codel": false, "pie": false, "clsact": false, "ingress": false,
	"fq_codel": true, "fq_pie": true, "sfq": true, "tbf": true, "netem": true, "red": true, "htb": true, "hfsc": true, "drr": true, "cake": true,
}

// classFilters are those of them whose classes have filters of their own. A filter in front leads to
// these, and so does a packet's priority.
var classFilters = allowlist.NameSet("htb", "hfsc")
