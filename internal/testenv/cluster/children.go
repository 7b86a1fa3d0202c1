package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// children are the processes that the first process of a pid namespace has started. That
// process inherits all orphans, so it waits for any child; os/exec, which waits for its
// own, cannot be used beside.
type children struct {
	mu      sync.Mutex
	waiting map[int]chan syscall.WaitStatus
	path    string // where programs are looked for
}

// newChildren begins to wait for children of this process.
func newChildren(path string) *children {
	c := &children{waiting: map[int]chan syscall.WaitStatus{}, path: path}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	go func() {
		for range signals {
			c.reap()
		}
	}()
	return c
}

// reap collects whoever has ended.
func (c *children) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if pid <= 0 {
			return
		}
		if ended := c.waiting[pid]; ended != nil {
			ended <- status
			delete(c.waiting, pid)
		}
	}
}

// process is what start takes.
type process struct {
	args   []string
	env    []string // added to PATH
	stdin  *os.File
	output *os.File
	extra  []*os.File
	flags  uintptr // namespaces of its own
}

// start starts a process, and gives its pid and a channel that tells how it ended.
func (c *children) start(p process) (pid int, ended <-chan syscall.WaitStatus, err error) {
	program, err := c.find(p.args[0])
	if err != nil {
		return 0, nil, err
	}
	if p.stdin == nil {
		if p.stdin, err = os.Open(os.DevNull); err != nil {
			return 0, nil, err
		}
		defer p.stdin.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	files := []uintptr{p.stdin.Fd(), p.output.Fd(), p.output.Fd()}
	for _, f := range p.extra {
		files = append(files, f.Fd())
	}
	pid, err = syscall.ForkExec(program, p.args, &syscall.ProcAttr{
		Dir:   "/",
		Env:   append([]string{"PATH=" + c.path, "HOME=/"}, p.env...),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true, Cloneflags: p.flags},
	})
	if err != nil {
		return 0, nil, fmt.Errorf("start %s: %w", program, err)
	}
	status := make(chan syscall.WaitStatus, 1)
	c.waiting[pid] = status
	return pid, status, nil
}

// find looks a program up on the children's path.
func (c *children) find(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range strings.Split(c.path, ":") {
		if file, err := exec.LookPath(dir + "/" + name); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("there is no program %s in %s", name, c.path)
}

// run runs a program to its end with text as its input, and gives what it printed.
func (c *children) run(ctx context.Context, input string, args ...string) (string, error) {
	stdin, give, err := os.Pipe()
	if err != nil {
		return "", err
	}
	take, output, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer take.Close()
	go func() {
		io.WriteString(give, input)
		give.Close()
	}()
	_, ended, err := c.start(process{args: args, stdin: stdin, output: output})
	stdin.Close()
	output.Close()
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(take)
	if err != nil {
		return "", err
	}
	select {
	case status := <-ended:
		if status.ExitStatus() != 0 {
			return "", fmt.Errorf("%s: %s: %s", strings.Join(args, " "), describe(status), strings.TrimSpace(string(text)))
		}
		return string(text), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// restartDelay is how long a daemon that has ended stays away.
const restartDelay = 500 * time.Millisecond

// keep runs a daemon, and starts it again whenever it ends, as an init system does. Its
// output goes to a file.
func (c *children) keep(log string, env []string, args ...string) error {
	if _, err := c.find(args[0]); err != nil {
		return err
	}
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	go func() {
		for {
			_, ended, err := c.start(process{args: args, env: env, output: output})
			if err != nil {
				fmt.Fprintln(output, "cluster:", err)
			} else {
				fmt.Fprintf(output, "cluster: %s %s\n", args[0], describe(<-ended))
			}
			time.Sleep(restartDelay)
		}
	}()
	return nil
}

func describe(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "was killed by " + s.Signal().String()
	}
	return fmt.Sprintf("exited with %d", s.ExitStatus())
}

// await asks until the answer is yes. An error says what was seen last.
func await(ctx context.Context, what string, limit time.Duration, ask func() (ok bool, seen string)) error {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	for {
		ok, seen := ask()
		if ok {
			return nil
		}
		if host.Sleep(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("%s: not within %s; seen last: %s", what, limit, seen)
		}
	}
}
