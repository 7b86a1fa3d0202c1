package host

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What a process uses is the sum of its threads, and its memory in bytes; one that has ended is an error.
func TestUsage(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"task/7/schedstat": "1500 30 2\n", "task/9/schedstat": "2500 0 1\n", "status": "Name:\tx\nVmRSS:\t    12 kB\nRssAnon:\t    3 kB\nRssFile:\t    8 kB\nThreads:\t2\n",
	} {
		file := filepath.Join(root, "proc/7", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := Reader{Root: root}
	if took, err := r.CPUTime(7); took != 4*time.Microsecond || err != nil {
		t.Errorf("it took %v, %v", took, err)
	}
	if all, own, err := r.ResidentMemory(7); all != 12<<10 || own != 4<<10 || err != nil {
		t.Errorf("it has %d bytes, %d of its own, %v", all, own, err)
	}
	if _, err := r.CPUTime(8); err == nil {
		t.Error("a process that is gone took CPU time")
	}
	if _, _, err := r.ResidentMemory(8); err == nil {
		t.Error("a process that is gone has memory")
	}
	if took, err := (Reader{}).CPUTime(os.Getpid()); took == 0 || err != nil {
		t.Errorf("this process took %v, %v", took, err)
	}
}
