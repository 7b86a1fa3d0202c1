package netcfg

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// StartWatcher starts a process that outlives this one, however this one ends, and sees its
// end as the end of its standard input. It is in a session of its own, so that no signal
// that is sent to this one's reaches it.
func StartWatcher(args []string) (*Child, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir, cmd.Args[0] = "/", "venturi" // the file may be called /proc/self/exe
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open lifeline: %w", err)
	}
	defer read.Close()
	cmd.Stdin = read
	done := make(chan struct{})
	child := &Child{cmd: cmd, Done: done, lifeline: write}
	if err := cmd.Start(); err != nil {
		write.Close()
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	child.Pid = cmd.Process.Pid
	go func() {
		child.err = cmd.Wait()
		close(done)
	}()
	return child, nil
}

// WriteLine tells a watcher something, a line that it reads from its standard input.
func (c *Child) WriteLine(line string) error {
	_, err := fmt.Fprintln(c.lifeline, line)
	return err
}

// OwnProgram starts this very program, also when its file was removed after it began.
func OwnProgram() []string { return []string{"/proc/self/exe"} }
