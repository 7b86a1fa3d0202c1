package host

import (
	"os"
	"path/filepath"
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

// TestIsolatedCPUs reads both lists of the kernel's, where there are any.
func TestIsolatedCPUs(t *testing.T) {
	for _, c := range []struct {
		isolated, ticks string
		want            []int
	}{
		{"", " (null)", nil},
		{"2-3", "", []int{2, 3}},
		{"3", "1,3", []int{1, 3}},
	} {
		r := Reader{Root: t.TempDir()}
		folder := filepath.Join(r.Root, "sys/devices/system/cpu")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"isolated": c.isolated, "nohz_full": c.ticks} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := r.IsolatedCPUs(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
