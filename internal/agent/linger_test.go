package agent_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/plain"
)

// lingerIdle is how long the process of [playLinger] waits for others.
const lingerIdle = 500 * time.Millisecond

// playLinger is the first process of a container.
func playLinger([]string) int {
	if err := agent.Linger(context.Background(), lingerIdle); err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	return 0
}

// playOccupant is another one, until its standard input ends.
func playOccupant([]string) int {
	if err := agent.Occupy(); err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	fmt.Println("here")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// wakeUps counts how often a process's threads went to sleep.
func wakeUps(t *testing.T, pid int) (count int) {
	t.Helper()
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := bytes.Cut(text, []byte("\nvoluntary_ctxt_switches:"))
		line, _, _ := bytes.Cut(after, []byte("\n"))
		n, err := strconv.Atoi(string(bytes.TrimSpace(line)))
		if err != nil {
			t.Fatal(err)
		}
		count += n
	}
	return count
}

// TestLinger: a container's first process sleeps while others are there, so that nothing runs
// beside what they measure, and ends after the last of them.
func TestLinger(t *testing.T) {
	plain.SkipShort(t)
	t.Parallel() // it waits
	start := func(role string) (*exec.Cmd, io.Closer) {
		args := testenv.RoleCommand(t, role)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		testenv.Must(t, err)
		out, err := cmd.StdoutPipe()
		testenv.Must(t, err)
		testenv.Must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		if role == "occupant" {
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		return cmd, in
	}
	_, letGo := start("occupant")
	first, _ := start("linger")
	time.Sleep(4 * lingerIdle) // it sleeps by now, on a busy machine too
	before := wakeUps(t, first.Process.Pid)
	time.Sleep(4 * lingerIdle)
	if n := wakeUps(t, first.Process.Pid) - before; n > 3 {
		t.Errorf("it woke %d times in %v", n, 4*lingerIdle)
	}
	began := time.Now()
	testenv.Must(t, letGo.Close())
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < lingerIdle {
		t.Errorf("it ended %v after the last process, not %v", took, lingerIdle)
	}
}

// TestLingerAfterVisit: the time in which nobody is there begins when the last one leaves, also
// where that one came and went within it.
func TestLingerAfterVisit(t *testing.T) {
	plain.SkipShort(t)
	t.Parallel() // it waits
	const idle = 2 * time.Second
	file := filepath.Join(t.TempDir(), "program")
	testenv.Must(t, os.WriteFile(file, nil, 0o600))
	ended := make(chan error, 1)
	go func() { ended <- agent.LingerOn(file, idle) }()
	visit, err := agent.LockPresence(file, syscall.LOCK_SH)
	testenv.Must(t, err)
	time.Sleep(idle / 2)
	left := time.Now() // before the lock is free: LingerOn may see it at once
	testenv.Must(t, syscall.Close(visit))
	testenv.Must(t, waitFor(t, "the end", ended))
	if took := time.Since(left); took < idle {
		t.Errorf("it ended %v after the visit, not %v", took, idle)
	}
}
