package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

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
		running = append(running, p.start("doctor", "--interval", "8s"))
	}
	p.await(host.ScaleTimeout(time.Minute), "both run", func() bool {
		agents := 0
		for _, command := range m.Processes() {
			if strings.Contains(command, "agent --stdio") {
				agents++
			}
		}
		return agents == 2
	})
	for i := range running {
		own, other := first+i, first+1-i
		said := m.Output(t, "setpriv", fmt.Sprintf("--reuid=%d", own), fmt.Sprintf("--regid=%d", own), "--clear-groups", "sh", "-c", fmt.Sprintf(`
for p in $(pgrep -U %d -f "agent --stdio"); do
	echo met
	kill -9 $p 2>/dev/null && echo killed
	for f in environ maps fd/0 exe; do head -c 1 /proc/$p/$f >/dev/null 2>&1 && echo read $f; done
done
find /dev/shm /tmp /run /var/tmp -user %[1]d ! -path "/proc/*" 2>/dev/null; true`, other))
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
	set := p.start("knob", "set", "net.listen", "8192")
	_ = set.Wait()
	if set.ProcessState.ExitCode() != 3 || !strings.Contains(set.output(), "root") {
		t.Errorf("exit code %d: %s", set.ProcessState.ExitCode(), set.output())
	}
	p.await(restoredWithin, "nothing left", func() bool { return len(m.Processes()) == 0 })
}
