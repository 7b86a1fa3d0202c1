package e2e

import "fmt"

// linkRules are rules of a device, or of the bridge.
func (g *grammar) linkRules() production {
	k := g.next()
	rule := g.scope() + " " + choose(g, "", "udp dport {dport}", "meta l4proto udp", "{ip} dscp cs1") + " " + choose(g, "counter", "accept", "counter accept", "drop")
	family, hook, only := "netdev", choose(g, "ingress", "egress")+` device "`+choose(g, "{port}", "{gate}", "wire0")+`"`, ""
	if g.chance(1, 2) {
		family, hook, only = "bridge", choose(g, "prerouting", "input", "output", "postrouting"), "vxlan"
		rule = "ether type {ip} " + rule
	}
	return production{
		name: family + " rules at " + hook, path: only,
		do: fmt.Sprintf("nft 'table %s gen%dx{n} { counter hits { }; chain c { type filter hook %s priority %d; %s; }; }'",
			family, k, hook, choose(g, -200, 0, 300), rule),
		undo: fmt.Sprintf("nft delete table %s gen%dx{n}", family, k),
	}
}

// neighbour is one said in other words, or a forwarding entry with more to it.
func (g *grammar) neighbour() production {
	hop := "ip neigh replace {hop} lladdr {hopmac} dev {out} nud permanent"
	pod := "ip neigh replace {pod} lladdr {podmac} dev {gate} nud permanent"
	entry := "bridge fdb replace {hopmac} dev {out} dst {other} self permanent"
	switch g.IntN(4) {
	case 0:
		return production{name: "neighbour: next hop", path: "vxlan routed", resource: "next hop", do: hop + choose(g, "", " router", " protocol static"), undo: hop}
	case 1:
		return production{name: "neighbour: pod", resource: "neighbour of the pod", do: pod + choose(g, "", " router", " protocol static"), undo: pod}
	}
	attributes := choose(g, "", "port 9999", "vni 999", "via wire0")
	return production{name: "forwarding entry: " + attributes, path: "vxlan", resource: "forwarding entry", do: entry + " " + attributes, undo: entry}
}

// ipsec is a policy of IPsec.
func (g *grammar) ipsec() production {
	policy := choose(g, "src {pod} dst {peer} dir out", "src {peer} dst {pod} dir fwd", "src {stranger} dst {peer} dir out")
	return production{
		name: "IPsec policy", resource: "IPsec", do: "ip xfrm policy add " + policy + " action " + choose(g, "allow", "block"), undo: "ip xfrm policy delete " + policy,
	}
}

// xdp is a program in the pod, with or without the machine's end cutting streams.
func (g *grammar) xdp() production {
	p := production{
		name: "XDP in the pod", do: "nsenter --net={podns} ip link set dev eth0 xdp pinned {bpf}/" + choose(g, "drop", "pass"),
		undo: "nsenter --net={podns} ip link set dev eth0 xdp off",
	}
	if g.chance(1, 2) {
		p.name += ", segmentation off"
		p.do = "ethtool -K {port} tso off gso off\n" + p.do
		p.undo += "\nethtool -K {port} tso on gso on"
	}
	return p
}
