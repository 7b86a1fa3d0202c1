package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

var governor = Rule{
	Facts: Facts{
		Code:     "governor",
		Title:    "CPUs save power rather than run at full speed",
		Severity: Note,
		Looks:    "the governors of the CPUs' frequency, on bare metal: other than performance",
		Effect:   Impact{"called most important by ESnet, recommended by Kube-OVN and Cilium; no isolated number was found", "Kube-OVN, Cilium, ESnet", "C"},
		Knob:     "cpu.governor", Value: "performance",
		Do: "it costs power and heat, and some of the turbo",
	},
	Check: func(v *View) []Finding {
		var others []string
		for _, name := range slices.Sorted(maps.Keys(v.Governors)) {
			if name != "performance" {
				others = append(others, fmt.Sprintf("%s on %d", name, v.Governors[name]))
			}
		}
		if v.Hypervisor != "" || len(others) == 0 {
			return nil
		}
		return []Finding{finding(nil, nil, Evidence{"/sys/devices/system/cpu/cpufreq/policy*/scaling_governor", strings.Join(others, ", ")})}
	},
}

const (
	someSteal = 0.01 // of the time of all CPUs
	muchSteal = 0.05
)

var steal = Rule{
	Facts: Facts{
		Code:     "steal",
		Title:    "The hypervisor takes CPU time away from this virtual machine",
		Severity: Warning,
		Looks:    "two readings of /proc/stat in a virtual machine: steal time is 1 % of all (a note), or 5 %",
		Effect:   Impact{"latency in waves of milliseconds, which nothing inside can fix; figures measured meanwhile mean little", "no number was found", "C"},
		Do:       "give the virtual machine dedicated CPUs, or move it",
	},
	Check: func(v *View) []Finding {
		cpus := v.countedCPUs()
		if !v.hasInterval() || len(cpus) == 0 {
			return nil
		}
		share := 0.0
		for _, n := range cpus {
			share += loadOf(v.First.CPUs[n], v.Second.CPUs[n]).steal / float64(len(cpus))
		}
		if share < someSteal {
			return nil
		}
		f := finding(nil, nil, Evidence{"/proc/stat", fmt.Sprintf("steal is %.1f %% of the time of %d CPUs", 100*share, len(cpus))})
		if share < muchSteal {
			f.Severity = Note
		}
		return []Finding{f}
	},
}

var bpfJIT = Rule{
	Facts: Facts{
		Code:     "bpf-jit-off",
		Title:    "eBPF programs are interpreted",
		Severity: Warning,
		Looks:    "sysctl net.core.bpf_jit_enable: 0",
		Effect:   Impact{"every packet of a network made with eBPF costs more CPU; no isolated number was found", "kernel documentation, sysctl/net", "C"},
		Knob:     "bpf.jit", Value: "enable=1",
	},
	Check: func(v *View) []Finding {
		if v.Sysctls["net.core.bpf_jit_enable"] != "0" {
			return nil
		}
		return []Finding{finding(nil, nil, sysctl("net.core.bpf_jit_enable", v.Sysctls))}
	},
}
