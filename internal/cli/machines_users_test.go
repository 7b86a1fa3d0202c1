package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// runningAgent is of the command line of an agent, and not of the script that starts it.
const runningAgent = "agent --stdio --machine a"

// Two users without privileges on one machine neither see nor disturb what the other runs
// there, and are told what they cannot do.
func TestTwoUsersOnOneMachine(t *testing.T) {
	testenv.Root(t)
	m := testenv.NewSSHMachine(t, "alpha")
	m.Do(t, "mount", "-t", "sysfs", "none", "/sys") // that of its own network, as on any machine
	p := &machinePair{t: t, machines: []*testenv.SSHMachine{m}}
	var running []*controller
	const first = 4711
	for _, user := range []string{"bob", "eve"} {
		m.AddUser(t, user, false)
	}
	for _, user := range []string{"bob", "eve"} {
		p.flags = []string{"--machines", "a=ssh://" + user + "@alpha", "--ssh", strings.Join(m.SSH, " ")}
		// On busy cores one of them may begin 20 seconds later than the other.
		running = append(running, p.start("doctor", "--interval", "30s"))
	}
	t.Cleanup(func() {
		for _, c := range running {
			if t.Failed() {
				t.Logf("it said: %s", c.output())
			}
		}
	})
	p.await(host.ScaleTimeout(time.Minute), "both run", func() bool {
		agents := 0
		for _, command := range m.Processes() {
			if strings.Contains(command, runningAgent) {
				agents++
			}
		}
		copies, _ := filepath.Glob(m.Root() + "/dev/shm/venturi-copy.*")
		return agents == 2 && len(copies) == 0 // an agent removes the copy that it runs from
	})
	for i := range running {
		own, other := first+i, first+1-i
		said := m.Output(t, "setpriv", fmt.Sprintf("--reuid=%d", own), fmt.Sprintf("--regid=%d", own), "--clear-groups", "sh", "-c", fmt.Sprintf(`
for p in $(pgrep -U %d -f "%s"); do
	echo met
	kill -9 $p 2>/dev/null && echo killed
	for f in environ maps fd/0 exe; do head -c 1 /proc/$p/$f >/dev/null 2>&1 && echo read $f; done
done
find /dev/shm /tmp /run /var/tmp -user %[1]d ! -path "/proc/*" 2>/dev/null; true`, other, runningAgent))
		if said != "met\n" {
			t.Errorf("user %d of what user %d runs: %s", own, other, said)
		}
	}
	for i, c := range running {
		_ = c.Wait() // it may have findings
		if code := c.ProcessState.ExitCode(); code != 0 && code != 8 || !strings.Contains(c.output(), "not-seen") {
			t.Errorf("user %d: exit code %d: %s", i, code, c.output())
		}
	}
	// What takes root is refused, before anything is copied.
	for _, args := range [][]string{{"knob", "set", "net.listen", "8192"}, {"undo", "--all"}, {"confirm"}} {
		refused := p.start(args...)
		_ = refused.Wait()
		if refused.ProcessState.ExitCode() != 3 || !strings.Contains(refused.output(), "who logs in is not root") {
			t.Errorf("%v: exit code %d: %s", args, refused.ProcessState.ExitCode(), refused.output())
		}
	}
	p.await(restoredWithin, "nothing left", func() bool { return len(m.Processes()) == 0 })
}
