package stack

import "github.com/venturi-net/venturi/internal/knob"

// listen is how many connections may wait to be accepted.
var listen = knob.Entry{
	Facts: knob.Facts{
		Name:     "net.listen",
		Title:    "Connections that may wait at a listening socket: established, and half-open",
		Values:   "accept=4096,syn=4096, or one number for both",
		Scope:    knob.ScopeNetns,
		Helps:    []knob.Benefit{knob.Drops},
		Risk:     "memory; a server that cannot keep up answers later instead of refusing",
		Needs:    "bursts of new connections: TcpExtListenDrops or TcpExtListenOverflows of /proc/net/netstat grow. The program must ask for as many in listen()",
		Grade:    knob.GradeC,
		Evidence: "tuned raises somaxconn to 2048 at least, without a number",
		Undo:     "the old values are written back; sockets that began to listen meanwhile keep theirs",
	},
	Knob: sysctlGroup{
		parts: []groupMember{
			{"accept", sysctl{name: "net.core.somaxconn", check: knob.Number(1, 1<<20)}},
			{"syn", sysctl{name: "net.ipv4.tcp_max_syn_backlog", check: knob.Number(1, 1<<20)}},
		},
		all:    true,
		trials: []string{"4096", "16384"},
		note:   "pods take nothing of it from the machine: set it in their namespaces. A program takes it when it calls listen()",
	},
}
