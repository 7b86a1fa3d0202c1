package stack

import "github.com/venturi-net/venturi/internal/knob"

// notInherited is the note of settings that a namespace starts without.
const notInherited = "pods take nothing of it from the machine, whatever their age: set it in their namespaces"

// tcpNotsent bounds what a connection holds unsent.
var tcpNotsent = knob.Entry{
	Facts: knob.Facts{
		Name:     "tcp.notsent",
		Title:    "Unsent bytes in a connection up to which its program may write on",
		Values:   "bytes, such as 131072; 4294967295: no limit",
		Scope:    knob.ScopeNetns,
		Helps:    []knob.Benefit{knob.Throughput, knob.Latency},
		Risk:     "a program is woken more often; too little starves the device",
		Needs:    "programs that write faster than the network sends",
		Grade:    knob.GradeC,
		Evidence: "tuned sets 131072 on the machine, where pods do not get it; no number",
		Undo:     "the old value is written back",
	},
	Knob: sysctl{name: "net.ipv4.tcp_notsent_lowat", check: knob.Number(1, 1<<32-1), steps: knob.OtherThan("131072"), note: notInherited},
}

// tcpIdle is whether a connection forgets its speed when it pauses.
var tcpIdle = knob.Entry{
	Facts: knob.Facts{
		Name:     "tcp.ssai",
		Title:    "Whether a connection starts slowly again after a pause (slow start after idle)",
		Values:   "on or off",
		Scope:    knob.ScopeNetns,
		Helps:    []knob.Benefit{knob.Throughput},
		Risk:     "off: a burst as large as before the pause may overflow a queue that others filled meanwhile",
		Needs:    "long-lived connections that send in bursts",
		Grade:    knob.GradeC,
		Evidence: "tuned turns it off on the machine, where pods do not get it; no number",
		Undo:     "the old value is written back",
	},
	Knob: sysctl{name: "net.ipv4.tcp_slow_start_after_idle", onOff: true, check: knob.OneOf("0", "1"), steps: knob.OtherThan("off", "on"), note: notInherited},
}

// tcpFastopen is data in the first packet of a connection.
var tcpFastopen = knob.Entry{
	Facts: knob.Facts{
		Name:     "tcp.fastopen",
		Title:    "Data in the first packet of a connection: 1 as client, 2 as server, 3 both, 0 not",
		Values:   "0 to 3; higher bits as the kernel's documentation of tcp_fastopen has them",
		Scope:    knob.ScopeNetns,
		Helps:    []knob.Benefit{knob.Latency},
		Risk:     "boxes on the way that drop such packets",
		Needs:    "programs on both ends that ask for it, and short connections",
		Grade:    knob.GradeC,
		Evidence: "tuned sets 3 on the machine, where pods do not get it; no number",
		Undo:     "the old value is written back",
	},
	Knob: sysctl{name: "net.ipv4.tcp_fastopen", check: knob.Number(0, 0x7fff), steps: knob.OtherThan("3"), note: notInherited},
}
