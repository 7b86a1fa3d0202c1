package stack

import "github.com/venturi-net/venturi/internal/knob"

// backlog is the queue of packets that wait for a core, on receive.
var backlog = knob.Entry{
	Facts: knob.Facts{
		Name:     "net.backlog",
		Title:    "Packets that may wait for a core after a virtual device or RPS (backlog)",
		Values:   "packets, such as 2000",
		Scope:    knob.ScopeMachine,
		Helps:    []knob.Benefit{knob.Drops, knob.Throughput},
		Risk:     "memory, and latency when the queue is long",
		Needs:    "helps only when the second column of /proc/net/softnet_stat (drops) grows; all veth pairs of a core share the queue",
		Grade:    knob.GradeB,
		Evidence: "ended the loss in a Kubernetes network over VXLAN where a larger budget had not (bpftune issue 178)",
		Undo:     "the old value is written back",
	},
	Knob: sysctl{name: "net.core.netdev_max_backlog", global: true, check: knob.Number(1, 1<<30), steps: knob.OtherThan("1000", "2000", "4000", "8000")},
}
