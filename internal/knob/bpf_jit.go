package knob

// bpfJIT is whether programs of eBPF are translated for the processor.
var bpfJIT = Entry{
	Facts: Facts{
		Name:       "bpf.jit",
		Title:      "Whether eBPF is translated for the processor, and hardened",
		Values:     "enable=1,harden=0 (enable: 0 to 2; harden: 0, 1 for programs of users, 2 for all), or some of it",
		Scope:      ScopeMachine,
		Helps:      []Effect{CPU},
		Risk:       "harden=0 takes away a defence against code that is sprayed into the kernel",
		Needs:      "a network of eBPF. A kernel that always translates does not take enable=0; programs that are loaded stay as they are",
		Grade:      GradeC,
		Evidence:   "the kernel's documentation: hardening trades performance for security, without a number",
		Undo:       "the old values are written back; programs that were loaded meanwhile stay as they are",
		ManualOnly: "it trades security: doctor tells when eBPF is not translated, a person decides",
	},
	Knob: sysctlGroup{
		parts: []groupMember{
			{"enable", sysctl{name: "net.core.bpf_jit_enable", global: true, check: number(0, 2)}},
			{"harden", sysctl{name: "net.core.bpf_jit_harden", global: true, check: number(0, 2)}},
		},
		trials: []string{"enable=1,harden=0"},
	},
}
