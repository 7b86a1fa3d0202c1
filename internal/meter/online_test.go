package meter

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A core that goes, or comes, while a series runs makes its CPU time meaningless.
func TestOnlineCores(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, "sys/devices/system/cpu/online")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	write("0-3\n")
	o, err := openOnline(root)
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	for range 2 {
		if err := o.check(); err != nil {
			t.Error(err)
		}
	}
	write("0,2-3\n")
	if err := o.check(); err == nil || !strings.Contains(err.Error(), "were 0-3, and are 0,2-3") {
		t.Errorf("a core that went: %v", err)
	}
	write("0-3\n")
	if err := o.check(); err != nil {
		t.Errorf("it is back: %v", err)
	}
}

// The exact source of CPU time asks for them at each sample.
func TestTickOnline(t *testing.T) {
	exact, _ := openThisTick(t)
	times := make([]cpuTimes, len(exact.list))
	if err := exact.read(times); err != nil {
		t.Fatal(err)
	}
	exact.online.text = []byte("0-999\n")
	if err := exact.read(times); err == nil || !strings.Contains(err.Error(), "were 0-999") {
		t.Errorf("cores that have gone: %v", err)
	}
}
