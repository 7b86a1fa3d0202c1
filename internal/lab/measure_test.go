package lab_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// hold lets another process take the measuring lock; the function lets go.
func hold(t *testing.T) (pid int, release func()) {
	t.Helper()
	command := testenv.RoleCommand(t, "holder")
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	testenv.Must(t, err)
	out, err := cmd.StdoutPipe()
	testenv.Must(t, err)
	testenv.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "held\n" {
		t.Fatalf("holder said %q (%v)", line, err)
	}
	return cmd.Process.Pid, func() { in.Close(); _, _ = io.Copy(io.Discard, out) }
}

func TestMeasureLock(t *testing.T) {
	testenv.Root(t)
	pid, release := hold(t)
	_, err := lab.LockMeasure(t.Context(), false, "me", nil)
	if verr.Code(err) != verr.Busy || !strings.Contains(err.Error(), "venturi compare vxlan") {
		t.Fatalf("lock that is held: %v, want busy, with the holder's command", err)
	}
	told := make(chan lab.Holder, 2)
	got := make(chan error, 1)
	go func() {
		unlock, err := lab.LockMeasure(t.Context(), true, "me", func(_ string, args ...any) { told <- args[0].(lab.Holder) })
		if err == nil {
			unlock()
		}
		got <- err
	}()
	if h := <-told; h.Pid != pid || time.Since(h.Since) > time.Hour {
		t.Errorf("waits for %+v, want pid %d", h, pid)
	}
	select {
	case err := <-got:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	release()
	select {
	case err := <-got:
		testenv.Must(t, err)
	case <-time.After(long):
		t.Fatal("waits for a lock that is free")
	}
	if len(told) > 0 {
		t.Error("told more than once for whom it waits")
	}
}

func TestMeasureLockInterrupted(t *testing.T) {
	testenv.Root(t)
	_, release := hold(t)
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lab.LockMeasure(ctx, true, "me", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("LockMeasure = %v, want %v", err, context.DeadlineExceeded)
	}
}

// However many take the lock and remove its file, one has it at a time.
func TestMeasureLockIsExclusive(t *testing.T) {
	testenv.Root(t)
	var holders atomic.Int32
	var trying sync.WaitGroup
	for range 8 {
		trying.Go(func() {
			for range 20 {
				unlock, err := lab.LockMeasure(t.Context(), true, "me", nil)
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d have the lock", n)
				}
				time.Sleep(time.Millisecond)
				holders.Add(-1)
				unlock()
			}
		})
	}
	trying.Wait()
	if _, err := os.Stat(lab.Folder + "/measure.lock"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock's file: %v", err)
	}
}

// To unlock twice does not take the lock from the next run.
func TestMeasureUnlockTwice(t *testing.T) {
	testenv.Root(t)
	first, err := lab.LockMeasure(t.Context(), false, "first", nil)
	testenv.Must(t, err)
	first()
	second, err := lab.LockMeasure(t.Context(), false, "second", nil)
	testenv.Must(t, err)
	defer second()
	first()
	if third, err := lab.LockMeasure(t.Context(), false, "third", nil); verr.Code(err) != verr.Busy {
		t.Errorf("a lock that the second run holds: %v", err)
		if err == nil {
			third()
		}
	}
}

// What a killed run leaves of the lock goes with the next sweep; what a living one holds stays.
func TestSweepRemovesMeasureLock(t *testing.T) {
	testenv.Root(t)
	pid, release := hold(t)
	_, err := lab.Sweep(t.Context())
	testenv.Must(t, err)
	if _, err := lab.LockMeasure(t.Context(), false, "me", nil); verr.Code(err) != verr.Busy {
		t.Fatalf("lock that is held: %v, want busy", err)
	}
	p, err := os.FindProcess(pid)
	testenv.Must(t, err)
	testenv.Must(t, p.Kill())
	release() // returns when it is gone
	file := lab.Folder + "/measure.lock"
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("what it has left: %v", err)
	}
	for end := time.Now().Add(long); ; time.Sleep(10 * time.Millisecond) { // its descriptors may be closed a little later
		_, err := lab.Sweep(t.Context())
		testenv.Must(t, err)
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s is still there", file)
		}
	}
}
