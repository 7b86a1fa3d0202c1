package stack

import "github.com/venturi-net/venturi/internal/knob"

// bpfJIT is whether programs of eBPF are translated for the processor.
var bpfJIT = knob.Entry{
	Facts: knob.Facts{
		Name:       "bpf.jit",
		Title:      "Whether eBPF is JIT-compiled, and hardened",
		Values:     "enable=1,harden=0 (enable: 0 to 2; harden: 0, 1 for programs of users, 2 for all), or some of it",
		Scope:      knob.ScopeMachine,
		Helps:      []knob.Benefit{knob.CPU},
		Risk:       "harden=0 removes a defence against JIT spraying",
		Needs:      "a network made with eBPF. A kernel that always compiles refuses enable=0; loaded programs stay as they are",
		Grade:      knob.GradeC,
		Evidence:   "the kernel's documentation: hardening trades performance for security, without a number",
		Undo:       "the old values are written back; programs loaded meanwhile stay as they are",
		ManualOnly: "it trades security: doctor reports when eBPF is interpreted, a person decides",
	},
	Knob: sysctlGroup{
		parts: []groupMember{
			{"enable", sysctl{name: "net.core.bpf_jit_enable", global: true, check: knob.Number(0, 2)}},
			{"harden", sysctl{name: "net.core.bpf_jit_harden", global: true, check: knob.Number(0, 2)}},
		},
		trials: []string{"enable=1,harden=0"},
	},
}
