package netcfg

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// pipesLimit limits how long a grandchild may keep a command's pipes open. On a busy machine, a process that was being
// started when the command ended has them for longer than a second, too.
const pipesLimit = 5 * time.Second

// Run runs a command inside the namespace, gives it input to read, and waits
// for its end. What it writes to its standard output is returned; what it
// writes to its standard error is part of the error. When ctx is done it is
// killed. Of the command, Log and Detach are not used.
func (n *Namespace) Run(ctx context.Context, c Command, input string) (string, error) {
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Env = c.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = host.ScaleTimeout(pipesLimit)
	// A new process is in the namespace of the thread that forks it.
	err := n.Do(func() error { return n.launch(cmd) })
	if err == nil {
		err = cmd.Wait()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		err = errors.New(text)
	}
	if err != nil {
		return "", n.Wrap("run "+filepath.Base(c.Args[0]), err)
	}
	return out.String(), nil
}
