package netcfg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// Command is a process to start inside a namespace.
type Command struct {
	Args []string // Args[0] is the program's file
	Env  []string // nil: the parent's
	Log  string   // file that gets what it writes; empty: nowhere
	// Detach starts it to outlive the parent: a session of its own and no
	// lifeline.
	Detach bool
}

// Child is a process that was started.
type Child struct {
	Pid  int
	Done <-chan struct{} // closed when it has ended and been waited for

	lifeline *os.File // nil when detached
	cmd      *exec.Cmd
	log      string // file; empty: none
	err      error
}

// Start runs a command inside the namespace. Unless it is detached, its standard input is a pipe
// whose other end only the parent holds: however the parent ends, the child reads the end of file.
// Until then it reads only what [Child.WriteLine] sends. It leads a process group of its own, so a
// Ctrl-C at the terminal reaches only the parent.
func (n *Namespace) Start(c Command) (*Child, error) {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env = c.Env
	child := &Child{cmd: cmd, log: c.Log}
	if c.Log != "" {
		log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, n.Wrap("open log", err)
		}
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log
	}
	if c.Detach {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	} else {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		read, write, err := os.Pipe()
		if err != nil {
			return nil, n.Wrap("open lifeline", err)
		}
		defer read.Close()
		cmd.Stdin, child.lifeline = read, write
	}
	// A new process is in the namespace of the thread that forks it.
	if err := n.Do(func() error { return n.launch(cmd) }); err != nil {
		child.CloseLifeline()
		return nil, n.Wrap("start "+c.Args[0], err)
	}
	done := make(chan struct{})
	child.Pid, child.Done = cmd.Process.Pid, done
	go func() {
		child.err = cmd.Wait()
		close(done)
	}()
	return child, nil
}

// Err says how the process ended; call it when Done is closed.
func (c *Child) Err() error { return c.err }

// ExitError is an error that tells how the process ended and what it said last;
// call it when Done is closed.
func (c *Child) ExitError() error {
	how := "with success"
	if c.err != nil {
		how = c.err.Error()
	}
	return fmt.Errorf("%s ended (%s)%s", filepath.Base(c.cmd.Path), how, c.lastOutput())
}

const (
	readyPoll = 5 * time.Millisecond // between looks whether a process is ready
	logTail   = 2000                 // bytes of its log that an error shows
)

// Await returns when ready gives no error any more. The context that ready gets
// ends after limit, so that a process that is stuck while it is asked holds up
// nobody for longer. Error: the process ended, or is not ready after limit, with
// what it said; or ctx ended, with the cause of that.
func (c *Child) Await(ctx context.Context, limit time.Duration, ready func(context.Context) error) error {
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := ready(asking)
		if err == nil {
			return nil
		}
		select {
		case <-c.Done:
			return c.ExitError()
		case <-asking.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			// Not wrapped: that asking was broken off is no interruption.
			return fmt.Errorf("%s is not ready after %v: %v%s", filepath.Base(c.cmd.Path), limit, err, c.lastOutput())
		case <-time.After(readyPoll):
		}
	}
}

// lastOutput gives the end of what the process wrote, for an error of this process.
func (c *Child) lastOutput() string {
	if text := c.lastLines(); text != "" {
		return "; it said: " + text
	}
	return ""
}

// LastOutput gives the end of what the process wrote, with its name, for an error of several
// processes; empty: it wrote nothing.
func (c *Child) LastOutput() string {
	if text := c.lastLines(); text != "" {
		return filepath.Base(c.cmd.Path) + " said: " + text
	}
	return ""
}

// lastLines gives the end of what the process wrote, its lines in one.
func (c *Child) lastLines() string {
	if c.log == "" {
		return ""
	}
	text, err := os.ReadFile(c.log)
	if err != nil || len(text) == 0 {
		return ""
	}
	if len(text) > logTail {
		text = text[len(text)-logTail:]
		if _, whole, found := bytes.Cut(text, []byte("\n")); found {
			text = whole
		}
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// CloseLifeline lets the process see the end of its input, and does not wait for it.
func (c *Child) CloseLifeline() {
	if c.lifeline != nil {
		c.lifeline.Close()
	}
}

// Stop ends the process: it cuts the lifeline, after grace asks it to end, and
// after grace once more kills it. It returns when the process is gone. Error: it is
// not, long after it was killed, as one that waits for a device or a file server.
func (c *Child) Stop(grace time.Duration) error {
	c.CloseLifeline()
	for _, step := range []struct {
		signal os.Signal
		wait   time.Duration
	}{{nil, grace}, {unix.SIGTERM, grace}, {unix.SIGKILL, killLimit}} {
		switch {
		case step.signal != nil:
			_ = c.cmd.Process.Signal(step.signal) // it may have ended just now
		case c.lifeline == nil:
			continue // it would not notice
		}
		select {
		case <-c.Done:
			return nil
		case <-time.After(step.wait):
		}
	}
	name := filepath.Base(c.cmd.Path)
	return fmt.Errorf("end process %d (%s): still there %v after it was killed", c.Pid, name, killLimit)
}

// killPoll is how often Kill looks whether processes are gone.
const killPoll = 5 * time.Millisecond

// killLimit is how long is waited for killed processes to vanish.
var killLimit = host.ScaleTimeout(10 * time.Second)

// Kill ends every process whose network namespace is one of those named: it
// asks them to end, and after grace kills them. It returns when none is left.
// Names that do not stand for a namespace are passed over. The calling process
// itself is spared.
func (w *Writer) Kill(names []string, grace time.Duration) error {
	var ids []host.NamespaceID
	for _, name := range names {
		id, err := w.ownIDAnywhere(name)
		if errors.Is(err, ErrNotOwned) {
			return err
		}
		if err == nil {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	start := time.Now()
	asked := map[int]bool{}
	for {
		pids, err := otherProcesses(ids)
		if err != nil || len(pids) == 0 {
			return err
		}
		late := time.Since(start) >= grace
		for _, pid := range pids {
			switch {
			case late:
				signalIn(pid, ids, unix.SIGKILL)
			case !asked[pid]:
				asked[pid] = true
				signalIn(pid, ids, unix.SIGTERM)
			}
		}
		if time.Since(start) > grace+killLimit {
			return fmt.Errorf("kill processes %v: still there after %v", pids, killLimit)
		}
		time.Sleep(killPoll)
	}
}

func otherProcesses(ids []host.NamespaceID) ([]int, error) {
	pids, err := host.Reader{}.ProcessesIn(ids...)
	self := os.Getpid()
	for i, pid := range pids {
		if pid == self {
			return append(pids[:i:i], pids[i+1:]...), err
		}
	}
	return pids, err
}

// signalIn sends a signal to a process if it still is in one of the
// namespaces. A descriptor of the process is opened before that is looked at
// and used after, so a number that was given to another process meanwhile does
// not do harm.
func signalIn(pid int, ids []host.NamespaceID, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone
	}
	defer unix.Close(fd)
	now, err := host.ID(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return
	}
	for _, id := range ids {
		if id == now {
			_ = unix.PidfdSendSignal(fd, sig, nil, 0)
			return
		}
	}
}
