package lab_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// hasTraces tells whether anything of a lab is on the machine.
func hasTraces(t *testing.T, name string) bool {
	t.Helper()
	all, err := netcfg.Namespaces()
	testenv.Must(t, err)
	_, err = os.Stat(folder(name))
	return err == nil || slices.ContainsFunc(all, func(n string) bool { return strings.HasPrefix(n, netcfg.Mark+name+".") })
}

// remains makes what a killed run can leave: any part of a lab, but no lock.
func remains(t *testing.T, folders, namespaces, state bool) string {
	t.Helper()
	testenv.Root(t)
	name := testenv.LabName()
	if folders {
		testenv.Must(t, os.MkdirAll(folder(name), 0o700))
	}
	if state {
		testenv.Must(t, os.WriteFile(filepath.Join(folder(name), "state.json"), []byte(`{"owner": 1, "cut off`), 0o600))
	}
	if namespaces {
		w, err := netcfg.Owned(name)
		testenv.Must(t, err)
		for _, rest := range []string{"m1", "m1.vxlan"} {
			n, err := w.Create(w.Name(rest))
			testenv.Must(t, err)
			n.Close()
		}
		// One that was killed while it was being made.
		testenv.Must(t, os.WriteFile(host.NamespacePath(w.Name("m2")), nil, 0o444))
	}
	return name
}

func TestSweepRemains(t *testing.T) {
	for _, c := range []struct {
		what                      string
		folder, namespaces, state bool
	}{
		{"namespaces without a folder", false, true, false},
		{"a folder without namespaces", true, false, false},
		{"a state that was cut off", true, true, true},
		{"no state", true, true, false},
	} {
		name := remains(t, c.folder, c.namespaces, c.state)
		removed, err := lab.Sweep(t.Context())
		if err != nil || !slices.Contains(removed, name) || hasTraces(t, name) {
			t.Errorf("%s: sweep removed %v (%v), %s is there: %v", c.what, removed, err, name, hasTraces(t, name))
		}
	}
}

// A new lab can have the name of one that was killed.
func TestUpSweepsFirst(t *testing.T) {
	name := remains(t, true, true, true)
	testenv.Lab(t, lab.Options{Name: name, Paths: []string{"vxlan"}})
}

// What others hold is left alone.
func TestSweepSparesTheLiving(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Paths: []string{"routed"}})
	removed, err := lab.Sweep(t.Context())
	if err != nil || slices.Contains(removed, l.Name) || !hasTraces(t, l.Name) {
		t.Errorf("sweep removed %v (%v)", removed, err)
	}
}

func TestSweepSparesTheKept(t *testing.T) {
	testenv.Root(t)
	name := testenv.LabName()
	l, err := lab.Up(t.Context(), lab.Options{Name: name, Paths: []string{"routed"}, Keep: true, AgentCommand: testenv.AgentCommand(t)})
	testenv.Must(t, err)
	removed, err := lab.Sweep(t.Context())
	if err != nil || slices.Contains(removed, name) {
		t.Errorf("sweep removed %v (%v)", removed, err)
	}
	infos, err := lab.List(t.Context())
	testenv.Must(t, err)
	i := slices.IndexFunc(infos, func(i lab.Info) bool { return i.Name == name })
	if i < 0 || infos[i].Status != lab.StatusKept || infos[i].Lab == nil {
		t.Fatalf("List = %+v, want %s as kept", infos, name)
	}
	loaded, err := lab.Load(name)
	testenv.Must(t, err)
	if loaded.Arms[0].Client() != l.Arms[0].Client() || loaded.Machines[0].AgentPid != l.Machines[0].AgentPid {
		t.Errorf("loaded %+v, want %+v", loaded, l)
	}
	testenv.Must(t, lab.Remove(t.Context(), name))
	if hasTraces(t, name) {
		t.Error("it is still there after it was removed")
	}
}

func TestConcurrentSweeps(t *testing.T) {
	var names []string
	for range 4 {
		names = append(names, remains(t, true, true, false))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := lab.Sweep(t.Context()); err != nil {
				t.Errorf("sweep: %v", err)
			}
		})
	}
	wg.Wait()
	for _, name := range names {
		if hasTraces(t, name) {
			t.Errorf("%s is still there", name)
		}
	}
}

// The owner is killed, then the agents too or not: either way a sweep leaves
// no process and no namespace.
func TestOwnerKilled(t *testing.T) {
	testenv.Root(t)
	for _, agentsToo := range []bool{false, true} {
		name := testenv.LabName()
		command := testenv.RoleCommand(t, "owner")
		cmd := exec.Command(command[0], append(command[1:], name)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		testenv.Must(t, err)
		testenv.Must(t, cmd.Start())
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
			t.Fatalf("owner said %q (%v)", line, err)
		}
		l, err := lab.Load(name)
		testenv.Must(t, err)
		testenv.Must(t, cmd.Process.Kill())
		if agentsToo {
			for _, m := range l.Machines {
				if p, err := os.FindProcess(m.AgentPid); err == nil {
					_ = p.Kill() // it may have seen its lifeline end already
				}
			}
		}
		_ = cmd.Wait()
		_, err = lab.Sweep(t.Context())
		testenv.Must(t, err)
		if hasTraces(t, name) {
			t.Errorf("something of the lab is left (agents killed: %v)", agentsToo)
		}
		for _, m := range l.Machines {
			if command := (host.Reader{}).Command(m.AgentPid); slices.Contains(command, m.Socket) {
				t.Errorf("agent %d still lives: %v", m.AgentPid, command)
			}
		}
	}
}

// Who wants the name of a dead lab that cannot be removed is told what stays, and
// not that a process has it which is gone.
func TestDeadLabThatStays(t *testing.T) {
	name := remains(t, true, true, false)
	const nobody = 1<<22 + 1 // greater than any pid
	testenv.Must(t, os.WriteFile(filepath.Join(folder(name), "state.json"), fmt.Appendf(nil, `{"owner": %d}`, nobody), 0o600))
	busy := filepath.Join(folder(name), "busy")
	testenv.Must(t, os.Mkdir(busy, 0o700))
	testenv.Must(t, unix.Mount("tmpfs", busy, "tmpfs", 0, ""))
	_, err := lab.NewClaim(t.Context(), name)
	var told *verr.Error
	if !errors.As(err, &told) || told.Code != verr.Busy || !strings.Contains(told.Reason, busy) || strings.Contains(told.Reason, fmt.Sprint(nobody)) {
		t.Errorf("NewClaim = %v, want that %s stays", err, busy)
	}
	testenv.Must(t, unix.Unmount(busy, unix.MNT_DETACH))
	c, err := lab.NewClaim(t.Context(), name)
	testenv.Must(t, err)
	c.Release()
	testenv.Must(t, lab.Remove(t.Context(), name))
}

// A process that the killed owner had only half started still holds the lock,
// for a moment: that is waited for.
func TestSweepWaitsForTheHalfStarted(t *testing.T) {
	name := remains(t, true, true, false)
	const nobody = 1<<22 + 1 // greater than any pid
	testenv.Must(t, os.WriteFile(filepath.Join(folder(name), "state.json"), fmt.Appendf(nil, `{"owner": %d}`, nobody), 0o600))
	lock, err := os.Create(filepath.Join(folder(name), "lock"))
	testenv.Must(t, err)
	testenv.Must(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	time.AfterFunc(200*time.Millisecond, func() { lock.Close() })
	removed, err := lab.Sweep(t.Context())
	if err != nil || !slices.Contains(removed, name) || hasTraces(t, name) {
		t.Errorf("sweep removed %v (%v), %s is there: %v", removed, err, name, hasTraces(t, name))
	}
}

// A fast path's daemon, also of an earlier version, may be killed while it has the host's RCU grace periods
// shortened. Its lab's end restores them.
func TestEndRestoresRCU(t *testing.T) {
	for _, record := range []string{"/run/venturi-fastpath/rcu-expedited", "/run/venturi-rcu-expedited"} {
		t.Run(filepath.Base(record), func(t *testing.T) {
			const setting = "/sys/kernel/rcu_expedited"
			before, err := os.ReadFile(setting)
			if err != nil || strings.TrimSpace(string(before)) != "0" {
				t.Skipf("%s is %q here, %v", setting, before, err)
			}
			name := remains(t, true, true, false)
			for written := false; !written; { // another package's daemon may remove the folder, and restores them with its lock
				const folder = "/run/venturi-fastpath"
				testenv.Must(t, os.MkdirAll(folder, 0o700))
				lock, err := os.Open(folder)
				if errors.Is(err, os.ErrNotExist) {
					continue
				}
				testenv.Must(t, err)
				testenv.Must(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
				err = os.WriteFile(record, nil, 0o600)
				if written = err == nil; written {
					err = os.WriteFile(setting, []byte("1"), 0)
				} else if errors.Is(err, os.ErrNotExist) {
					err = nil
				}
				testenv.Must(t, errors.Join(err, lock.Close()))
			}
			testenv.Must(t, lab.Remove(t.Context(), name))
			for end := time.Now().Add(testenv.Timeout); ; time.Sleep(10 * time.Millisecond) { // another package's daemon may start or end
				_, err := os.Lstat(record)
				now, _ := os.ReadFile(setting)
				if errors.Is(err, os.ErrNotExist) && strings.TrimSpace(string(now)) == "0" {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("%v after the lab's end, %s is %q, and the record: %v", testenv.Timeout, setting, now, err)
				}
			}
		})
	}
}
