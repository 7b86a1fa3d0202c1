package stack

import "github.com/venturi-net/venturi/internal/knob"

// busyPoll lets a program that waits for a packet look for it itself.
var busyPoll = knob.Entry{
	Facts: knob.Facts{
		Name:     "net.busy_poll",
		Title:    "How long a program that waits for a packet polls the device before it sleeps (busy polling)",
		Values:   "microseconds: read=50,poll=50 (blocking reads, and poll or select), or one number for both; 0: never",
		Scope:    knob.ScopeMachine,
		Helps:    []knob.Benefit{knob.Latency},
		Risk:     "burns CPU time and power while it waits",
		Needs:    "a device with NAPI, and spare cores; no effect on packets whose last hop is a veth without NAPI",
		Grade:    knob.GradeB,
		Evidence: "mean latency 47.5 to 16.4 µs with SO_BUSY_POLL, packets 10 ms apart, one machine (B2BITS); C: tuned sets 50, Amazon's ENA guide 70",
		Undo:     "the old values are written back; sockets that were opened meanwhile keep theirs",
	},
	Knob: sysctlGroup{
		parts: []groupMember{
			{"read", sysctl{name: "net.core.busy_read", global: true, check: knob.Number(0, 100000)}},
			{"poll", sysctl{name: "net.core.busy_poll", global: true, check: knob.Number(0, 100000)}},
		},
		all:    true,
		trials: []string{"50", "70"},
		note:   "sockets take the value of reads when they are opened: programs that run keep what they had",
	},
}
