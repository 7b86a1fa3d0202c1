package knob

// jitter is work that the kernel does now and then, on any core.
var jitter = Entry{
	Facts: Facts{
		Name:     "kernel.jitter",
		Title:    "Periodic kernel work on any core: NUMA balancing, timer migration, lockup detection, statistics",
		Values:   "numa_balancing=0,timer_migration=0,nmi_watchdog=0,stat_interval=10 (seconds), or some of it",
		Scope:    ScopeMachine,
		Helps:    []Benefit{Latency},
		Risk:     "nmi_watchdog=0: a core that hangs is no longer noticed; numa_balancing=0: memory stays on a far node",
		Needs:    "long tails of latency that nothing else explains",
		Grade:    GradeC,
		Evidence: "values of tuned's network-latency, without a number",
		Undo:     "the old values are written back",
	},
	Knob: sysctlGroup{
		parts: []groupMember{
			{"numa_balancing", sysctl{name: "kernel.numa_balancing", global: true, check: Number(0, 3)}},
			{"timer_migration", sysctl{name: "kernel.timer_migration", global: true, check: Number(0, 1)}},
			{"nmi_watchdog", sysctl{name: "kernel.nmi_watchdog", global: true, check: Number(0, 1)}},
			{"stat_interval", sysctl{name: "vm.stat_interval", global: true, check: Number(1, 3600)}},
		},
		trials: []string{"numa_balancing=0,timer_migration=0,nmi_watchdog=0,stat_interval=10"},
	},
}
