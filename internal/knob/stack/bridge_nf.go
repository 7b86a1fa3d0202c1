package stack

import "github.com/venturi-net/venturi/internal/knob"

// bridgeNF is whether packets between ports of a bridge pass the rules for IP.
var bridgeNF = knob.Entry{
	Facts: knob.Facts{
		Name:       "net.bridge_nf",
		Title:      "Whether packets between ports of a Linux bridge go through iptables, ip6tables and arptables (bridge-nf)",
		Values:     "iptables=off,ip6tables=off,arptables=off, or some of it; on or off alone is for all",
		Scope:      knob.ScopeNetns,
		Helps:      []knob.Benefit{knob.CPU, knob.Latency},
		Risk:       "off: Services and policies have no effect between pods on one bridge; kube-proxy and most clusters need it on",
		Needs:      "a bridge whose traffic needs no rules, such as that of virtual machines. The module br_netfilter; before kernel 5.3 all namespaces share it",
		Grade:      knob.GradeC,
		Evidence:   "every packet of a bridge walks the rules twice; no isolated figure was found",
		Undo:       "the old values are written back",
		ManualOnly: "a cluster's Services and policies may depend on it",
	},
	Knob: sysctlGroup{
		parts: []groupMember{
			{"iptables", sysctl{name: "net.bridge.bridge-nf-call-iptables", onOff: true, check: knob.OneOf("0", "1")}},
			{"ip6tables", sysctl{name: "net.bridge.bridge-nf-call-ip6tables", onOff: true, check: knob.OneOf("0", "1")}},
			{"arptables", sysctl{name: "net.bridge.bridge-nf-call-arptables", onOff: true, check: knob.OneOf("0", "1")}},
		},
		all:    true,
		trials: []string{"off", "on"},
		note:   "a namespace starts with it on, whatever the machine's own is",
	},
}
