package nic

import "github.com/venturi-net/venturi/internal/knob"

// nicTxQueueLen is how much a device's queue takes.
var nicTxQueueLen = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.txqueuelen",
		Title:    "The queue length of a device, for queueing disciplines that use it",
		Values:   "packets, such as 1000",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Drops},
		Risk:     "packets in a long queue arrive late",
		Needs:    "a queue that takes its length from the device: pfifo_fast, pfifo, bfifo; noqueue and fq do not",
		Grade:    knob.GradeC,
		Evidence: "common in guides, without a number",
		Undo:     "the old number is written back",
	},
	Knob: deviceNumbers{name: "nic.txqueuelen", parts: []deviceNumber{{"", "link", "txqueuelen", 1, 1 << 20}}},
}
