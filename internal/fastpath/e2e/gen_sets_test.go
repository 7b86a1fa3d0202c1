package e2e

import "fmt"

// Statements that each element of a set runs: nft takes them of sets.
const tenASecond = "limit rate 10/second burst 40 packets"

var elementStatements = []string{"", "", "", "counter;", tenASecond + ";", "limit rate over 10/second burst 40 packets;", "quota 12 kbytes;", "quota over 12 kbytes;"}

// set is a set, a rule that asks it, or one that fills it.
func (g *grammar) set() production {
	k := g.next()
	flags := choose(g, "", "", "", "flags interval;", "flags dynamic;", "flags timeout;", "flags dynamic,timeout; timeout 1h;")
	each := choose(g, elementStatements...)
	if g.chance(1, 3) {
		if flags == "flags interval;" { // the kernel adds no elements to these by itself
			flags = ""
		}
		return g.filled(k, flags, each)
	}
	element := "{pod}"
	switch {
	case each == tenASecond+";" && g.chance(1, 2):
		element += " limit rate 1000/second burst 40 packets"
	case each == "" && flags == "flags timeout;":
		element += choose(g, "", " timeout 1h")
	case each == "":
		element += choose(g, "", ` comment "pod"`)
	}
	return g.asked(k, flags, each, element)
}

// asked: what is in the set passes, or what is not.
func (g *grammar) asked(k int, flags, each, element string) production {
	name := fmt.Sprintf("set: %s %s { %s }", flags, each, element)
	at := choose(g, place{"{ip}", "forward", "0"}, place{"{ip}", "prerouting", "-150"}, place{"{ip}", "postrouting", "0"})
	judging := []string{"{ip} saddr @s accept", "{ip} saddr {pod} drop"}
	rules := choose(g,
		judging,
		[]string{"{ip} saddr @s counter name hits accept"},
		[]string{"{ip} daddr @s counter"},
		[]string{"{ip} saddr . udp dport vmap { {pod} . {dport} : accept }", "{ip} saddr @s accept", "{ip} saddr {pod} meta l4proto udp drop"},
	)
	if each != "" && g.chance(1, 2) {
		rules = judging
	}
	return table(name, k, at, fmt.Sprintf("set s { type {ipv}_addr; %s %s elements = { %s }; }", flags, each, element), rules)
}

// filled: a rule fills the set, which was made before it.
func (g *grammar) filled(k int, flags, each string) production {
	return fills(k, flags, each, choose(g, "", "ct state new", "ct direction original", "{ip} saddr {pod}"), choose(g, "add", "add", "update"))
}

func fills(k int, flags, each, condition, operation string) production {
	p := table(fmt.Sprintf("set that a rule fills: %s %s, %s", flags, each, condition), k, onForward,
		fmt.Sprintf("set s { type {ipv}_addr; %s %s }", flags, each), []string{"{ip} saddr {pod} {ip} saddr @s counter name hits drop"})
	p.fills = true
	p.do += fmt.Sprintf("\n\nnft 'add rule {ip} gen%dx{n} c {ip} saddr {pod} %s udp dport {knock} %s @s { {ip} saddr }'", k, condition, operation)
	return p
}

// knock is traffic that rules may wait for.
func (g *grammar) knock() production {
	return production{name: "the pod sends to another port", knocks: true}
}

// forget makes the machine forget its connections.
func (g *grammar) forget() production {
	return production{name: "connections are forgotten", forgets: true}
}

func (g *grammar) noProduction() production { return production{name: "nothing"} }
