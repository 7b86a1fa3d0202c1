package netcfg

import (
	"fmt"
	"os/exec"
	"syscall"
)

// StartDetached starts this very program once more, to outlive the process that
// starts it: in a session of its own, so that the end of a terminal does not
// reach it, without anything to read from or write to, and in the root folder,
// so that it holds up no unmounting. Env nil means the process's own.
func StartDetached(args, env []string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Path = "/proc/self/exe" // its file may be gone: a copy on another machine is
	cmd.Env, cmd.Dir = env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", args[0], err)
	}
	return cmd.Process.Release()
}
