package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/result"
)

// TestKilled kills the controller, an agent, or both in the middle of a run.
// Whoever is left ends by itself, and the next command finds nothing to trip over.
func TestKilled(t *testing.T) {
	for _, c := range []struct {
		name              string
		controller, agent bool
	}{
		{"controller", true, false},
		{"agent", false, true},
		{"both", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := testHost(t, deaf{})
			before := testenv.Snapshot(t)
			run := startController(t, h.LabName)
			run.awaitSlices(t, 50)
			l, err := lab.Load(h.LabName)
			if err != nil {
				t.Fatal(err)
			}
			if c.agent {
				kill(t, l.Machines[1].AgentPid)
			}
			if c.controller {
				kill(t, run.cmd.Process.Pid)
			}
			run.awaitEnd(t, c.controller)

			// The next command, by another name: it sweeps before it builds.
			h.LabName = testenv.LabName()
			if _, _, err := Do(t.Context(), resolve(t, short(t, "udp_lat")), h); err != nil {
				t.Errorf("the next run: %v", err)
			}
			wantGone(t, l)
			if after := testenv.Snapshot(t); after != before {
				t.Errorf("the machine is not as it was.\nbefore:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

type controller struct {
	cmd    *exec.Cmd
	out    string // folder of the record
	stderr bytes.Buffer
}

// startController starts a comparison that would take minutes, of the usual
// paths if none are named.
func startController(t *testing.T, labName string, paths ...string) *controller {
	t.Helper()
	q := short(t, "tcp_lat")
	q.Series = 500
	if len(paths) > 0 {
		q.Paths = paths
	}
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	command := testenv.RoleCommand(t, "controller")
	c := &controller{out: q.Out}
	c.cmd = exec.Command(command[0], append(command[1:], labName, string(text))...)
	c.cmd.Stderr = &c.stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cmd.Process.Kill() })
	// The agents of the runs that follow in this process are agents again.
	return c
}

func (c *controller) awaitSlices(t *testing.T, n int) {
	t.Helper()
	for start := time.Now(); time.Since(start) < 3*time.Minute; time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(c.out, result.FileName))
		if err == nil && bytes.Count(text, []byte(`{"slice"`)) >= n {
			return
		}
	}
	t.Fatalf("no %d slices within three minutes: %s", n, c.stderr.String())
}

// awaitEnd waits for the process; one that was not killed must say why it ends.
func (c *controller) awaitEnd(t *testing.T, killed bool) {
	t.Helper()
	done := make(chan error)
	go func() { done <- c.cmd.Wait() }()
	select {
	case err := <-done:
		if killed {
			return
		}
		exit := new(exec.ExitError)
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(c.stderr.String(), "agent") {
			t.Errorf("ended with %v: %s", err, c.stderr.String())
		}
		rec, err := result.Open(c.out)
		if err != nil {
			t.Errorf("its record: %v", err)
		} else if rec.End.Reason != result.Failed {
			t.Errorf("its record ended %q", rec.End.Reason)
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("it does not end: %s", c.stderr.String())
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// wantGone wants neither namespaces nor folder nor agents of a lab.
func wantGone(t *testing.T, l *lab.Lab) {
	t.Helper()
	left, err := filepath.Glob(host.NamespacePath("venturi." + l.Name + ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("namespaces left: %v %v", left, err)
	}
	infos, err := lab.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		if i.Name == l.Name {
			t.Errorf("the lab is still listed: %+v", i)
		}
	}
	for _, m := range l.Machines {
		// Whoever inherits a dead process may be slow to bury it: a zombie has no command line.
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", m.AgentPid)); err == nil && len(line) > 0 {
			t.Errorf("agent %d of %s lives", m.AgentPid, m.Name)
		}
	}
}
