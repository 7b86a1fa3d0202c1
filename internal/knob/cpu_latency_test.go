package knob_test

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// hold is the role of a process that keeps a file open.
func hold(args []string) int {
	if len(args) != 5 || setting.HoldDone(args[2]) != nil {
		return 1
	}
	for { // an empty select would be taken for a deadlock
		time.Sleep(time.Hour)
	}
}

// latencyBench is bareMetal with the kernel's file, as it is when nobody holds it.
func latencyBench(t *testing.T) (b bench, shows func() int) {
	t.Helper()
	testenv.Program(t) // processes that it starts play a role
	files := bareMetal()
	files["/dev/cpu_dma_latency"] = string(binary.NativeEndian.AppendUint32(nil, 2_000_000_000))
	b = fixture(t, files)
	return b, func() int {
		n, err := setting.HeldNumber(filepath.Join(b.m.Root, "dev/cpu_dma_latency"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// The limit holds while a process lives that holds it, and an undo ends that.
func TestLatencyIsHeld(t *testing.T) {
	b, shows := latencyBench(t)
	cell := setting.Setting{Backend: "held", Key: "/dev/cpu_dma_latency"}
	b.turns("cpu.dma_latency", knob.Target{}, "10", "10")
	if n := shows(); n != 10 {
		t.Errorf("the kernel was told %d", n)
	}
	if v, err := b.m.Settings.Read(cell); err != nil || v.Present {
		t.Errorf("undone, and %v us are held (%v)", v, err)
	}
	for _, value := range []string{"30", "20", "off", "5"} {
		if err := b.set("cpu.dma_latency", knob.Target{}, value); err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		if got := b.get("cpu.dma_latency", knob.Target{}); got != value {
			t.Errorf("set to %s, it is %s", value, got)
		}
	}
	b.undo()
	if v, err := b.m.Settings.Read(cell); err != nil || v.Present {
		t.Errorf("undone, and %v us are held (%v)", v, err)
	}
	b.refused("cpu.dma_latency", knob.Target{}, verr.Usage, "-1", "x", "2000000000")
}

// A holder that was started by a program that is installed elsewhere, such as another
// version, is found and ended.
func TestLatencyHeldByAnotherVersion(t *testing.T) {
	b, _ := latencyBench(t)
	own, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, own, 0o755); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(b.m.Root, "dev/cpu_dma_latency")
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command(other, setting.HoldArgs(name, 7)...)
	cmd.ExtraFiles = []*os.File{file}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for start := time.Now(); b.get("cpu.dma_latency", knob.Target{}) != "7"; time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("it is not found")
		}
	}
	if err := b.set("cpu.dma_latency", knob.Target{}, "off"); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("it was not ended, but ended")
	}
}

// Somebody who holds less makes ours of no effect, which is told and undone.
func TestLatencyThatOthersHold(t *testing.T) {
	b, _ := latencyBench(t)
	if err := b.set("cpu.dma_latency", knob.Target{}, "10"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(b.m.Root, "dev/cpu_dma_latency")
	if err := os.WriteFile(file, binary.NativeEndian.AppendUint32(nil, 3), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := entry(t, "cpu.dma_latency").Get(b.m, knob.Target{}); err != nil || r.Value != "10" || r.Effective != "3" {
		t.Errorf("%+v, %v", r, err)
	}
	b.undo()
	if r, err := entry(t, "cpu.dma_latency").Get(b.m, knob.Target{}); err != nil || r.Value != "off" || r.Note == "" {
		t.Errorf("%+v, %v", r, err)
	}
	awake := fixture(t, map[string]string{"/dev/cpu_dma_latency": "none"})
	awake.refused("cpu.dma_latency", knob.Target{}, verr.Missing, "10") // no idle states
}
