package stack

import "github.com/venturi-net/venturi/internal/knob"

// jitter is work that the kernel does now and then, on any core.
var jitter = knob.Entry{
	Facts: knob.Facts{
		Name:     "kernel.jitter",
		Title:    "Periodic kernel work on any core: NUMA balancing, timer migration, lockup detection, statistics",
		Values:   "numa_balancing=0,timer_migration=0,nmi_watchdog=0,stat_interval=10 (seconds), or some of it",
		Scope:    knob.ScopeMachine,
		Helps:    []knob.Benefit{knob.Latency},
		Risk:     "nmi_watchdog=0: a core that hangs is no longer noticed; numa_balancing=0: memory stays on a far node",
		Needs:    "long tails of latency that nothing else explains",
		Grade:    knob.GradeC,
		Evidence: "values of tuned's network-latency, without a number",
		Undo:     "the old values are written back",
	},
	Knob: sysctlGroup{
		parts: []groupMember{
			{"numa_balancing", sysctl{name: "kernel.numa_balancing", global: true, check: knob.Number(0, 3)}},
			{"timer_migration", sysctl{name: "kernel.timer_migration", global: true, check: knob.Number(0, 1)}},
			{"nmi_watchdog", sysctl{name: "kernel.nmi_watchdog", global: true, check: knob.Number(0, 1)}},
			{"stat_interval", sysctl{name: "vm.stat_interval", global: true, check: knob.Number(1, 3600)}},
		},
		trials: []string{"numa_balancing=0,timer_migration=0,nmi_watchdog=0,stat_interval=10"},
	},
}
