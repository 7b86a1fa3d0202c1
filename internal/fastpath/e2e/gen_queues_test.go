package e2e

import "fmt"

// Classifiers of classic BPF, for kernels that have few others. A mark is read by load from SKF_AD_OFF + SKF_AD_MARK.
const (
	byMark7  = "bytecode '4,32 0 0 4294963220,21 0 1 7,6 0 0 65537,6 0 0 0,'"
	byNobody = "bytecode '1,6 0 0 0,'"
	// byPriority is a program of [genPrograms]: the priority that forwarding takes from the TOS, of packets that came
	// from no device, as those of a tunnel did.
	byPriority = "object-pinned {bpf}/by_priority"
	htb        = "tc qdisc add dev %[1]s root handle 1: htb default 9\ntc class add dev %[1]s parent 1: classid 1:9 htb rate 10gbit quantum 60000\n"
	slowClass  = "tc class add dev %[1]s parent 1: classid 1:1 htb rate 16kbit ceil 16kbit burst 1600 cburst 1600 quantum 2000\n"
	fewPackets = "tc qdisc add dev %[1]s parent 1:1 pfifo limit 4\n"
)

// queue is a queueing discipline or a filter of a device that packets pass.
func (g *grammar) queue() production {
	device := choose(g, "{port}", "{gate}", "{out}", "wire0", "wire0", "wire0")
	p := production{resource: "queue of wire0", undo: "tc qdisc del dev " + device + " root"}
	switch g.IntN(7) {
	case 0:
		p.name, p.do = "pfifo at "+device, "tc qdisc add dev "+device+" root pfifo limit 1000"
	case 1:
		p.name, p.do = "generous tbf at "+device, "tc qdisc add dev "+device+" root tbf rate 10gbit burst 10mb latency 1s"
	case 2:
		p.name, p.do = "tbf at "+device, "tc qdisc add dev "+device+" root tbf rate 64kbit burst 3000 latency 20ms"
		p.approximate = true
	case 3:
		p.name, p.do = "filter that lets pass, in, at "+device, "tc qdisc add dev "+device+" clsact 2>/dev/null || true\ntc filter add dev "+device+" ingress prio 77 protocol {ethertype} bpf "+byNobody
		p.undo = "tc filter del dev " + device + " ingress prio 77"
	case 4:
		p.name, p.do = "filter that lets pass, out, at "+device, "tc qdisc add dev "+device+" clsact 2>/dev/null || true\ntc filter add dev "+device+" egress prio 77 protocol {ethertype} bpf "+byNobody
		p.undo = "tc filter del dev " + device + " egress prio 77"
	default:
		return g.class(device)
	}
	return oncePerWire(p, device)
}

// class is a slow class, and who gets into it.
func (g *grammar) class(device string) production {
	return oncePerWire(slowClassOf(device, choose(g, byMark7, byPriority, byNobody, byNobody, "")), device)
}

// slowClassOf is one that a classifier puts packets into; without, those get there whose
// priority names it.
func slowClassOf(device, classifier string) production {
	p := production{
		name: "htb at " + device + ", a class of 16 kbit/s by " + classifier, resource: "queue of wire0", approximate: classifier != byNobody,
		do:   fmt.Sprintf(htb+slowClass+fewPackets, device),
		undo: "tc qdisc del dev " + device + " root",
	}
	if classifier != "" {
		p.do += "tc filter add dev " + device + " parent 1: protocol {ethertype} prio 5 bpf " + classifier
	}
	return p
}

// oncePerWire keeps what is done to the wire from being done for each path.
func oncePerWire(p production, device string) production {
	if device == "{out}" {
		p.path = "vxlan geneve ipip" // of routed pods that is the wire
	}
	return p
}

// mark is a mark, and somebody who goes by it.
func (g *grammar) mark() production {
	k := g.next()
	scope := g.scope()
	at := choose(g, place{"{ip}", "forward", "-150"}, place{"{ip}", "postrouting", "0"}, place{"{ip}", "prerouting", "-150"})
	p := table("mark 7 at "+at.hook, k, at, "", []string{scope + " meta mark set 7"})
	reader := choose(g,
		slowClassOf("wire0", byMark7),
		slowClassOf("wire0", ""),
		production{name: "policy rule by it", do: fmt.Sprintf("ip {-4} rule add pref 1%d{n} from {pod} fwmark 7 blackhole", k), undo: fmt.Sprintf("ip {-4} rule del pref 1%d{n}", k)},
	)
	if g.chance(1, 2) {
		p = table("priority 1:1 at postrouting", k, onPostrouting, "", []string{scope + " meta priority set 1:1"})
	}
	p.name += ", and " + reader.name
	p.do, p.undo = p.do+"\n\n"+reader.do, reader.undo+"\n\n"+p.undo
	p.resource, p.approximate = reader.resource, reader.approximate
	return p
}
