package stack

import "github.com/venturi-net/venturi/internal/knob"

// budget is how much a core takes in before it lets others run.
var budget = knob.Entry{
	Facts: knob.Facts{
		Name:     "net.budget",
		Title:    "How much a core receives in one softirq: packets, time, and packets of one device",
		Values:   "packets=600,usecs=8000,weight=64, or some of it; a number alone is packets",
		Scope:    knob.ScopeMachine,
		Helps:    []knob.Benefit{knob.Packets, knob.Drops},
		Risk:     "programs on that core wait longer; 300 ms of it made a cluster worse (bpftune issue 178)",
		Needs:    "helps only when the third column of /proc/net/softnet_stat (time_squeeze) grows",
		Grade:    knob.GradeB,
		Evidence: "negative: raising it without bound did harm where a larger backlog was needed (bpftune issue 178)",
		Undo:     "the old values are written back",
	},
	Knob: sysctlGroup{
		parts: []groupMember{
			{"packets", sysctl{name: "net.core.netdev_budget", global: true, check: knob.Number(1, 1<<20)}},
			{"usecs", sysctl{name: "net.core.netdev_budget_usecs", global: true, check: knob.Number(1, mostBudget)}},
			{"weight", sysctl{name: "net.core.dev_weight", global: true, check: knob.Number(1, 1<<16)}},
		},
		trials: []string{"packets=600,usecs=4000", "packets=600,usecs=8000", "packets=1200,usecs=16000"},
	},
}

// mostBudget is the longest time that a core may be kept from everything else,
// in microseconds: beyond it programs starve.
const mostBudget = 20000
