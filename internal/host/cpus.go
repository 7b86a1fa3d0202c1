package host

import (
	"fmt"

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
