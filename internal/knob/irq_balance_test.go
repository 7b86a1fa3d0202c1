package knob_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/verr"
)

// systemd plays systemctl for one service, in a folder: the service is a process
// that sleeps, with the variables of its file.
const systemd = `#!/bin/sh
cd "$STATE" || exit 1
pid() { cat pid 2>/dev/null || echo 0; }
stop() { [ "$(pid)" = 0 ] || { kill "$(pid)"; rm -f pid; }; echo inactive >active; }
start() {
	(while IFS= read -r line; do case $line in IRQBALANCE_*) export "$line";; esac; done <"$CONFIG"
	exec sleep 600 </dev/null >/dev/null 2>&1) & echo $! >pid; echo active >active
}
verb=$1; shift
echo "$verb" >>calls
case $verb in
show) printf 'LoadState=loaded\nActiveState=%s\nUnitFileState=%s\nMainPID=%s\nEnvironmentFiles=/etc/default/irqbalance (ignore_errors=yes)\n' "$(cat active)" "$(cat enabled)" "$(pid)";;
start) start;;
stop) stop;;
try-restart) [ "$(cat active)" = inactive ] || { stop; start; };;
enable) echo enabled >enabled;;
disable) echo disabled >enabled;;
esac
`

// balancing is a machine of four cores on which irqbalance is a service.
func balancing(t *testing.T, config string) (b bench, state string) {
	t.Helper()
	b = fixture(t, map[string]string{"/sys/devices/system/cpu/online": "0-3\n", "/etc/default/irqbalance": config})
	state = t.TempDir()
	for name, text := range map[string]string{"systemctl": systemd, "active": "inactive\n", "enabled": "enabled\n"} {
		if err := os.WriteFile(filepath.Join(state, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", state+":"+os.Getenv("PATH"))
	t.Setenv("STATE", state)
	t.Setenv("CONFIG", filepath.Join(b.m.Root, "etc/default/irqbalance"))
	call := func(verb string) {
		if out, err := exec.Command(filepath.Join(state, "systemctl"), verb).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", verb, err, out)
		}
	}
	call("start")
	t.Cleanup(func() { call("stop") })
	settled(t, state)
	return b, state
}

// settled waits until the service's process is what it shall become.
func settled(t *testing.T, state string) (pid int) {
	t.Helper()
	for range 1000 {
		text, err := os.ReadFile(filepath.Join(state, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		if name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm"); string(name) == "sleep\n" {
			return pid
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the service did not start")
	return 0
}

const balanceFile = "# as it came\nIRQBALANCE_ARGS=--powerthresh=2\n#IRQBALANCE_BANNED_CPULIST="

func TestIRQBalance(t *testing.T) {
	b, state := balancing(t, balanceFile)
	file := filepath.Join(b.m.Root, "etc/default/irqbalance")
	unchanged := func() {
		t.Helper()
		if text, err := os.ReadFile(file); err != nil || string(text) != balanceFile {
			t.Errorf("its file holds %q (%v)", text, err)
		}
		for name, want := range map[string]string{"active": "active\n", "enabled": "enabled\n"} {
			if text, err := os.ReadFile(filepath.Join(state, name)); err != nil || string(text) != want {
				t.Errorf("%s is %q (%v), want %q", name, text, err, want)
			}
		}
		if got := b.get("irq.balance", knob.Target{}); got != "on" {
			t.Errorf("it is %s", got)
		}
	}
	b.turns("irq.balance", knob.Target{}, "ban=2-3", "ban=2-3")
	unchanged()
	b.turns("irq.balance", knob.Target{}, "off", "off")
	unchanged()
	if err := b.set("irq.balance", knob.Target{}, "ban=1"); err != nil {
		t.Fatal(err)
	}
	if environ, err := os.ReadFile("/proc/" + strconv.Itoa(settled(t, state)) + "/environ"); err != nil || !strings.Contains(string(environ), "BANNED_CPULIST=1\x00") {
		t.Errorf("it was not started anew: %q, %v", environ, err)
	}
	if err := b.set("irq.balance", knob.Target{}, "on"); err != nil {
		t.Fatal(err)
	}
	b.undo()
	unchanged()
	b.refused("irq.balance", knob.Target{}, verr.Usage, "ban=0-3", "ban=4", "ban=", "ban=x", "sometimes", "")
}

// An undo that was killed after the file was put back, and before the service
// was started anew, is finished by the next one.
func TestIRQBalanceIsStartedAnew(t *testing.T) {
	b, state := balancing(t, balanceFile)
	if err := b.set("irq.balance", knob.Target{}, "ban=2"); err != nil {
		t.Fatal(err)
	}
	before := settled(t, state)
	wanted, err := json.Marshal(map[string]string{"new": balanceFile})
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"irqbalance": balanceFile, ".irqbalance.wanted.venturi": string(wanted)} {
		if err := os.WriteFile(filepath.Join(b.m.Root, "etc/default", file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := entry(t, "irq.balance").Get(b.m, knob.Target{})
	if err != nil || r.Value != "on" || r.Effective != "ban=2" {
		t.Errorf("the file says on, and it runs with a ban: %+v, %v", r, err)
	}
	b.undo()
	if after := settled(t, state); after == before {
		t.Error("the service still runs with what was undone")
	}
	if err := syscall.Kill(before, 0); !errors.Is(err, syscall.ESRCH) {
		t.Logf("its old process: %v", err)
	}
}

func TestIRQBalanceWithoutSystemd(t *testing.T) {
	b := fixture(t, nil)
	t.Setenv("PATH", t.TempDir())
	b.refused("irq.balance", knob.Target{}, verr.Missing, "on", "off", "ban=1")
}
