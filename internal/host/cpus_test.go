package host

import (
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAllowedCPUs asks a thread that was confined to one core.
func TestAllowedCPUs(t *testing.T) {
	all, err := AllowedCPUs()
	if err != nil || len(all) != runtime.NumCPU() || !slices.IsSorted(all) {
		t.Fatalf("cores %v of %d, %v", all, runtime.NumCPU(), err)
	}
	last := all[len(all)-1]
	done := make(chan []int)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		var one unix.CPUSet
		one.Set(last)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Error(err)
		}
		cpus, _ := AllowedCPUs()
		done <- cpus
	}()
	if got := <-done; !slices.Equal(got, []int{last}) {
		t.Errorf("confined to core %d: %v", last, got)
	}
}
