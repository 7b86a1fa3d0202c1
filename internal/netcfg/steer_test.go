package netcfg

import (
	"slices"
	"testing"
)

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

// Cores that the kernel has left out of a mask are found.
func TestOmittedCPUs(t *testing.T) {
	for _, c := range []struct {
		cpus []int
		mask string
		want []int
	}{
		{[]int{0, 1}, "3\n", nil},
		{[]int{0, 1, 33}, "1\n", []int{1, 33}},
		{[]int{1, 33}, "00000002,00000000\n", []int{1}},
		{[]int{0}, "", []int{0}},
	} {
		if got := omitted(c.cpus, c.mask); !slices.Equal(got, c.want) {
			t.Errorf("%v of %q: %v, want %v", c.cpus, c.mask, got, c.want)
		}
	}
}
