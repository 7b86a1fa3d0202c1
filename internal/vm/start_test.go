package vm_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/vm"
)

// config is a machine under a stored kernel. It is emulated, as on any host without KVM.
func config(t *testing.T) vm.Config {
	t.Helper()
	testenv.Root(t)
	for _, n := range vm.Needs() {
		if lacks, get := n.Lack(); n != nil {
			if _, err := n.Ask(); err != nil {
				skipIfMissing(t, lacks+": "+get)
			}
		}
	}
	k, err := kernel.Find(kernel.Default)
	if err != nil {
		skipIfMissing(t, err.Error())
	}
	return vm.Config{Kernel: k, Program: testenv.Program(t), Accel: vm.TCG, CPUs: 2, Memory: 1024}
}

func skipIfMissing(t *testing.T, what string) {
	t.Helper()
	if testenv.Required() {
		t.Fatal(what)
	}
	t.Skip(what)
}

// refused checks that an error has all three parts.
func refused(t *testing.T, err error, code int, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", parts)
	}
	if got := verr.Code(err); got != code {
		t.Errorf("exit code %d, want %d: %v", got, code, err)
	}
	var e *verr.Error
	if !asError(err, &e) || e.Summary == "" || e.Reason == "" || e.Hint == "" {
		t.Errorf("%v: does not have three parts", err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%v: want %q in it", err, p)
		}
	}
}

func TestMachineThatCannotStart(t *testing.T) {
	usual := config(t)
	noModules := t.TempDir()
	for _, file := range []string{"modules.dep", "modules.builtin", "modules.softdep", "modules.alias"} {
		testenv.Must(t, os.WriteFile(filepath.Join(noModules, file), nil, 0o600))
	}
	for _, c := range []struct {
		name   string
		change func(*vm.Config)
		code   int
		parts  []string
	}{
		{"no program", func(c *vm.Config) { c.Program = nil }, verr.Usage, []string{"no program"}},
		{"program is not there", func(c *vm.Config) { c.Program = []string{"/no/such/file"} }, verr.Failed, []string{"/no/such/file"}},
		{"kernel is not there", func(c *vm.Config) { c.Kernel.Image = "/no/such/kernel" }, verr.Missing, []string{"/no/such/kernel"}},
		{"kernel lacks modules", func(c *vm.Config) { c.Kernel.Modules = noModules }, verr.Missing, []string{"virtio", "venturi kernel fetch"}},
		{"module does not exist", func(c *vm.Config) { c.Modules = []string{"no_such_module"} }, verr.Missing, []string{"no_such_module"}},
		{"too much memory", func(c *vm.Config) { c.Memory = 1 << 34 }, verr.Failed, []string{"emory"}},
		{"tap is not there", func(c *vm.Config) { c.NICs = []vm.NIC{{Tap: "no-such-tap", MAC: "02:00:00:00:00:01"}} }, verr.Missing, []string{"no-such-tap"}},
		{"bad address", func(c *vm.Config) { c.NICs = []vm.NIC{{Tap: "tap0", MAC: "x"}} }, verr.Usage, []string{"tap0"}},
		{"no such card", func(c *vm.Config) { c.NICs = []vm.NIC{{Model: "ne2000", Tap: "tap0", MAC: "02:00:00:00:00:01"}} }, verr.Usage, []string{"ne2000"}},
		{"card without choices", func(c *vm.Config) {
			c.NICs = []vm.NIC{{Model: vm.E1000E, Tap: "tap0", MAC: "02:00:00:00:00:01", Queues: 2}}
		}, verr.Usage, []string{"e1000e"}},
		{"nothing to write on", func(c *vm.Config) { c.Writable = []string{"/tmp"} }, verr.Usage, nil},
		{"no folder", func(c *vm.Config) { c.Root, c.Writable = true, []string{"/no/such/folder"} }, verr.Usage, []string{"/no/such/folder"}},
		{"console cannot be written", func(c *vm.Config) { c.Console = "/no/such/folder/console" }, verr.Failed, []string{"/no/such/folder"}},
		{"unknown acceleration", func(c *vm.Config) { c.Accel = "warp" }, verr.Usage, []string{"warp"}},
		// A start limit that the machine exceeds ends it, as it would a machine that hangs.
		{"hangs", func(c *vm.Config) { c.StartLimit = 700 * time.Millisecond }, verr.Failed, []string{"first process within 700ms", "console"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := usual
			c.change(&config)
			g, err := vm.Start(t.Context(), config)
			if err == nil {
				g.Close()
			}
			refused(t, err, c.code, append(c.parts, "virtual machine")...)
		})
	}
	t.Run("no qemu", func(t *testing.T) {
		t.Setenv("PATH", "")
		_, err := vm.Start(t.Context(), usual)
		refused(t, err, verr.Missing, "qemu-system-x86_64", "install")
	})
	t.Run("stopped", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := vm.Start(ctx, usual); err != context.DeadlineExceeded {
			t.Errorf("%v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// A failure of the first process ends the machine, with the reason.
func TestFirstProcessGivesUp(t *testing.T) {
	c := config(t)
	c.Settings = settings("no.such.setting", "1")
	_, err := vm.Start(t.Context(), c)
	refused(t, err, verr.Failed, "cannot start", "no.such.setting", "no such file")
}

// An emulated kernel that panics or hangs while it boots is started once more, and no oftener.
// What does so is a program in qemu's place.
func TestFaultWhileBooting(t *testing.T) {
	testenv.NeedsLong(t)
	usual := config(t)
	real, err := exec.LookPath("qemu-system-x86_64")
	testenv.Must(t, err)
	const panics = `
		echo "[    1.1] BUG: unable to handle page fault for address: fffffbcd"
		echo "[    1.1] RIP: 0010:hrtimer_interrupt+0x1/0x2"
		seq 20
		echo "[    1.4] Kernel panic - not syncing: Fatal exception in interrupt"`
	const hangs = `
		echo "Poking KASLR using RDRAND RDTSC..."
		exec sleep 1000`
	for _, c := range []struct {
		name   string
		does   string
		times  string // how many starts in a row
		limit  time.Duration
		refuse []string
	}{
		{"panics once", panics, "1", 0, nil},
		{"always panics", panics, "9", 0, []string{"panicked: Fatal exception in interrupt", "BUG: unable", "RIP: 0010:hrtimer_interrupt"}},
		{"hangs once", hangs, "1", vm.LongestStart, nil},
		{"always hangs", hangs, "9", 6 * time.Second, []string{"first process within 6s", "Poking KASLR"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			starts := filepath.Join(folder, "starts")
			testenv.Must(t, os.WriteFile(filepath.Join(folder, "qemu-system-x86_64"), []byte(`#!/bin/sh
echo start >> `+starts+`
[ "$(grep -c . `+starts+`)" -gt `+c.times+` ] && exec `+real+` "$@"
`+c.does), 0o700))
			t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
			config := usual
			config.StartLimit = c.limit
			if c.limit == vm.LongestStart { // what hangs is found at once, and a busy machine has time to start
				vm.HangPart(t, c.limit/(2*time.Second))
			}
			g, err := vm.Start(t.Context(), config)
			if got := lines(t, starts); got != "2" {
				t.Errorf("qemu was started %s times, want 2", got)
			}
			if c.refuse != nil {
				refused(t, err, verr.Failed, append([]string{"cannot start", usual.Kernel.Release}, c.refuse...)...)
				return
			}
			testenv.Must(t, err)
			testenv.Must(t, g.Close())
		})
	}
}
