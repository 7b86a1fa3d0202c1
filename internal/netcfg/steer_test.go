package netcfg

import "testing"

func TestCPUMask(t *testing.T) {
	for want, cpus := range map[string][]int{
		"00000003":                   {0, 1},
		"00000002":                   {1},
		"00000001,00000000":          {32},
		"00000100,00000000,80000001": {72, 31, 0},
		"00000000":                   nil,
	} {
		if got := cpuMask(cpus); got != want {
			t.Errorf("%v: %s, want %s", cpus, got, want)
		}
	}
}
