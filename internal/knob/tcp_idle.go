package knob

// notInherited is the note of settings that a namespace starts without.
const notInherited = "pods take nothing of it from the machine, whatever their age: set it in their namespaces"

// tcpNotsent bounds what a connection holds unsent.
var tcpNotsent = Entry{
	Facts: Facts{
		Name:     "tcp.notsent",
		Title:    "Unsent bytes in a connection up to which its program may write on",
		Values:   "bytes, such as 131072; 4294967295: no limit",
		Scope:    ScopeNetns,
		Helps:    []Benefit{Throughput, Latency},
		Risk:     "a program is woken more often; too little starves the device",
		Needs:    "programs that write faster than the network sends",
		Grade:    GradeC,
		Evidence: "tuned sets 131072 on the machine, where pods do not get it; no number",
		Undo:     "the old value is written back",
	},
	Knob: sysctl{name: "net.ipv4.tcp_notsent_lowat", check: Number(1, 1<<32-1), steps: otherThan("131072"), note: notInherited},
}

// tcpIdle is whether a connection forgets its speed when it pauses.
var tcpIdle = Entry{
	Facts: Facts{
		Name:     "tcp.ssai",
		Title:    "Whether a connection starts slowly again after a pause (slow start after idle)",
		Values:   "on or off",
		Scope:    ScopeNetns,
		Helps:    []Benefit{Throughput},
		Risk:     "off: a burst as large as before the pause may overflow a queue that others filled meanwhile",
		Needs:    "long-lived connections that send in bursts",
		Grade:    GradeC,
		Evidence: "tuned turns it off on the machine, where pods do not get it; no number",
		Undo:     "the old value is written back",
	},
	Knob: sysctl{name: "net.ipv4.tcp_slow_start_after_idle", onOff: true, check: oneOf("0", "1"), steps: otherThan("off", "on"), note: notInherited},
}

// tcpFastopen is data in the first packet of a connection.
var tcpFastopen = Entry{
	Facts: Facts{
		Name:     "tcp.fastopen",
		Title:    "Data in the first packet of a connection: 1 as client, 2 as server, 3 both, 0 not",
		Values:   "0 to 3; higher bits as the kernel's documentation of tcp_fastopen has them",
		Scope:    ScopeNetns,
		Helps:    []Benefit{Latency},
		Risk:     "boxes on the way that drop such packets",
		Needs:    "programs on both ends that ask for it, and short connections",
		Grade:    GradeC,
		Evidence: "tuned sets 3 on the machine, where pods do not get it; no number",
		Undo:     "the old value is written back",
	},
	Knob: sysctl{name: "net.ipv4.tcp_fastopen", check: Number(0, 0x7fff), steps: otherThan("3"), note: notInherited},
}
