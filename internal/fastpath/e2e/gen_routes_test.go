package e2e

import "fmt"

// Attributes of routes. Those of kernels that lack them are refused by ip.
var routeAttributes = []string{
	"", "", "mtu 1200", "mtu lock 1200", "advmss 1000", "window 1000", "initcwnd 20", "realm 5", "quickack 1", "proto static", "hoplimit 32",
	"rto_min 100ms", "src {address}", "encap bpf xmit pinned {bpf}/lossy", "encap bpf in pinned {bpf}/through", "encap bpf out pinned {bpf}/through_out",
	"encap {ip} id 7 dst {nowhere}",
}

// route is one to the peer's pod that is more specific than that to all pods there.
func (g *grammar) route() production {
	k := g.next()
	attributes := choose(g, routeAttributes...)
	p := production{name: "route: " + attributes, approximate: attributes == lossyRoute}
	via, second := "via {hop} dev {out} onlink", "via {second} dev {out} onlink"
	if k%2 == 0 {
		via, second = second, via
	}
	id := fmt.Sprintf("%d{n}", 20+k)
	switch g.IntN(8) {
	case 0:
		p.name = "next hop object"
		p.do = fmt.Sprintf("ip nexthop add id %s %s\nip {-4} route add {peer} nhid %s metric %d", id, via, id, 9-k)
		p.undo = fmt.Sprintf("ip {-4} route del {peer} metric %d\nip nexthop del id %s", 9-k, id)
	case 1:
		p.name = "next hop group"
		p.do = fmt.Sprintf("ip nexthop add id %s %s\nip nexthop add id 1%s group %s\nip {-4} route add {peer} nhid 1%s metric %d", id, via, id, id, id, 9-k)
		p.undo = fmt.Sprintf("ip {-4} route del {peer} metric %d\nip nexthop del id 1%s\nip nexthop del id %s", 9-k, id, id)
	case 2:
		p.name = "multipath"
		p.do = fmt.Sprintf("ip {-4} route add {peer} metric %d nexthop %s weight 1 nexthop %s weight 2", 9-k, via, second)
		p.undo = fmt.Sprintf("ip {-4} route del {peer} metric %d", 9-k)
	default:
		p.do = fmt.Sprintf("ip {-4} route add {peer} %s metric %d %s", via, 9-k, attributes)
		p.undo = fmt.Sprintf("ip {-4} route del {peer} metric %d", 9-k)
	}
	return p
}

const lossyRoute = "encap bpf xmit pinned {bpf}/lossy"

// policy is a policy rule, and a table of its own.
func (g *grammar) policy() production {
	number := fmt.Sprintf("1%d{n}", g.next())
	selector := choose(g, "from {pod}", "from {pod} to {peer}", "from {pod} iif {gate}", "to {peer}", "from {pod} ipproto udp", "from {pod} ipproto udp dport {dport}",
		"from {pod} fwmark 7", "from {pod} tos 0x10", "from {pod} tos 0x08")
	action := choose(g, "lookup "+number, "lookup "+number, "lookup "+number, "lookup main", "blackhole", "unreachable", "lookup main suppress_prefixlength 0")
	attributes := choose(g, routeAttributes...)
	return production{
		name:        "policy rule: " + selector + " " + action,
		do:          fmt.Sprintf("ip {-4} route add {peer} via {hop} dev {out} onlink table %s %s\nip {-4} rule add pref %s %s %s", number, attributes, number, selector, action),
		undo:        fmt.Sprintf("ip {-4} rule del pref %s\nip {-4} route flush table %s", number, number),
		approximate: attributes == lossyRoute,
	}
}

// setting is one of the machine, or of what it knows of neighbours.
func (g *grammar) setting() production {
	switch g.IntN(4) {
	case 0:
		return sysctl("{ipv}/conf/{gate}/forwarding", "0", "1")
	case 1:
		return sysctl("{forwarding}", "0", "1")
	case 2:
		return production{name: "blackhole", do: "ip {-4} route add blackhole {peer} metric 1", undo: "ip {-4} route del blackhole {peer} metric 1"}
	}
	return production{
		name: "neighbour", do: "ip neigh replace {pod} lladdr 02:76:00:00:00:98 dev {gate} nud permanent",
		undo: "ip neigh replace {pod} lladdr {podmac} dev {gate} nud permanent",
	}
}

func sysctl(name, value, was string) production {
	file := "/proc/sys/net/" + name
	return production{name: name + "=" + value, do: "echo " + value + " > " + file, undo: "echo " + was + " > " + file}
}
