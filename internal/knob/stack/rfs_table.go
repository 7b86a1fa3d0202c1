package stack

import "github.com/venturi-net/venturi/internal/knob"

// RFSTable is where the machine remembers on which core a flow's program runs.
var RFSTable = knob.Entry{
	Facts: knob.Facts{
		Name:     "net.rfs_table",
		Title:    "How many flows the host keeps the core of (RFS)",
		Values:   "flows of all devices together, such as 32768; the kernel rounds up to a power of two. 0: none, and net.rfs does nothing",
		Scope:    knob.ScopeMachine,
		Helps:    []knob.Benefit{knob.Latency, knob.CPU},
		Risk:     "memory, and a little work for each packet that a program receives",
		Needs:    "net.rfs on a device; of no use by itself",
		Grade:    knob.GradeC,
		Evidence: "Red Hat's guide recommends 32768, without a number for the gain",
		Undo:     "the old value is written back",
	},
	Knob: sysctl{name: flowTable, global: true, check: knob.Number(0, mostTable)},
}

const (
	flowTable = "net.core.rps_sock_flow_entries"
	mostTable = 1 << 29 // the kernel's own
)
