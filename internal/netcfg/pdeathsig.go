package netcfg

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/venturi-net/venturi/internal/host"
)

// BoundCommand is a process to start that needs no lifeline.
type BoundCommand struct {
	Args          []string   // Args[0] is the program's file
	Env           []string   // nil: the parent's
	Files         []*os.File // its descriptors from 3 on
	Output, Error io.Writer  // get what it writes; nil: nowhere
}

// Start runs a program that knows nothing of lifelines: the kernel kills it when
// this process ends, however that may be. It leads a process group of its own.
// In nil it is started where this process is: it must be one that writes
// nothing there.
func (c BoundCommand) Start(in *Namespace) (*Child, error) {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = c.Env, c.Files, c.Output, c.Error
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = host.ScaleTimeout(pipesLimit)
	onThread, fail := host.InThread, func(_ string, err error) error { return err }
	if in != nil {
		onThread, fail = in.Do, in.Wrap
	}
	done, started := make(chan struct{}), make(chan error, 1)
	child := &Child{cmd: cmd, Done: done}
	go func() {
		defer close(done)
		err := onThread(func() error {
			if err := in.launch(cmd); err != nil {
				return err
			}
			child.Pid = cmd.Process.Pid
			started <- nil
			// For the kernel, the parent is the thread that started it: it must
			// live, and be nobody else's, for as long.
			child.err = cmd.Wait()
			return nil
		})
		if err != nil {
			started <- err
		}
	}()
	if err := <-started; err != nil {
		<-done
		return nil, fail("start "+filepath.Base(c.Args[0]), err)
	}
	return child, nil
}
