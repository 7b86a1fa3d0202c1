package host

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// AllowedCPUs lists the cores that this process may run on, in ascending
// order: all of the machine's, or those that taskset or a container left it.
func AllowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read CPU affinity: %w", err)
	}
	var cpus []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// IsolatedCPUs lists the cores that the boot line keeps for nobody, in ascending order: those that it
// isolates (isolcpus) or has run without ticks (nohz_full). The kernel steers no packets to them.
func (r Reader) IsolatedCPUs() []int {
	var all []int
	for _, file := range []string{"isolated", "nohz_full"} {
		// One is empty, or " (null)", where there are none.
		if cores, err := ParseNumbers(r.line("sys/devices/system/cpu", file)); err == nil {
			all = append(all, cores...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
