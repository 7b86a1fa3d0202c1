package tool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// process is a program that runs in a namespace and cannot outlive us.
//
// It is the first process of a PID namespace of its own: when it dies, the
// kernel kills everything that it started (qperf's server forks for every
// client). And it is killed when the thread that started it dies, so a kill -9
// of this program takes it along.
type process struct {
	cmd  *exec.Cmd
	out  output
	errs output
	done chan struct{} // closed when it has ended and was reaped
	err  error         // of Wait; valid after done
}

// mostOutput is more than any tool writes in a run: a ping of a minute at 1,000 a second
// writes 4 MB.
const mostOutput = 16 << 20

// output keeps what a process writes, as far as any tool would go.
type output struct {
	bytes.Buffer
	truncated bool
}

// Write never fails: a process whose output is too long is not to die of it.
func (o *output) Write(p []byte) (int, error) {
	room := mostOutput - o.Len()
	if len(p) > room {
		o.truncated = true
		_, _ = o.Buffer.Write(p[:room]) // it never fails
		return len(p), nil
	}
	return o.Buffer.Write(p)
}

// start runs argv in a network namespace (empty: ours) on one CPU (-1: any).
func start(namespace string, cpu int, argv []string) (*process, error) {
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errs
	p.cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	p.cmd.WaitDelay = time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // a Ctrl-C at the terminal is for us to handle
	}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		err := onThread(namespace, func() error {
			if err := p.launch(cpu); err != nil {
				return err
			}
			started <- nil
			// "The thread that started it" is why this waits here, inside.
			p.err = p.cmd.Wait()
			return nil
		})
		if err != nil {
			started <- err
		}
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	return p, nil
}

// onThread runs fn on a locked thread that is in a network namespace.
func onThread(namespace string, fn func() error) error {
	if namespace == "" {
		return host.InThread(fn)
	}
	return host.Do(namespace, fn)
}

// launch starts the program and binds it to its CPU.
func (p *process) launch(cpu int) error {
	if err := p.cmd.Start(); err != nil {
		return err
	}
	if cpu < 0 {
		return nil
	}
	if err := pin(p.cmd.Process.Pid, cpu); err != nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		return err
	}
	return nil
}

// stop kills the process and all that it started, and waits until it is gone.
// It is harmless on one that has ended.
func (p *process) stop() {
	p.cmd.Process.Kill()
	<-p.done
}

// failure tells how an ended process failed, in its own words; nil if it did not.
func (p *process) failure() error {
	if p.err == nil {
		return nil
	}
	said := strings.TrimSpace(p.errs.String())
	if said == "" {
		said = strings.TrimSpace(p.out.String())
	}
	if said == "" {
		return p.err
	}
	const enough = 500
	if len(said) > enough {
		said = said[:enough] + "..."
	}
	said = sanitize.Text(strings.Join(strings.Fields(said), " "))
	exit := new(exec.ExitError)
	if errors.As(p.err, &exit) {
		return fmt.Errorf("%s (%w)", said, exit)
	}
	return fmt.Errorf("%s: %w", said, p.err)
}
