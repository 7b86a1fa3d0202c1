package host

import (
	"os"
	"strings"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// Governors counts the CPUs' frequency policies by their governors.
func (r Reader) Governors() map[string]int {
	count := map[string]int{}
	files, _ := sanitize.Files(r.path("sys/devices/system/cpu/cpufreq"), "policy*/scaling_governor")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			count[strings.TrimSpace(string(text))]++
		}
	}
	return count
}

// Modules lists the kernel modules that are loaded; those that were not built
// with the kernel are true.
func (r Reader) Modules() map[string]bool {
	modules := map[string]bool{}
	for line := range r.fields("proc/modules") {
		modules[line[0]] = strings.Contains(r.line("sys/module", line[0], "taint"), "O")
	}
	return modules
}

// Hypervisor names what the machine runs on; empty: bare metal.
func (r Reader) Hypervisor() string { return r.hypervisor(r.cpuinfo()) }
