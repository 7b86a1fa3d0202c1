package netcfg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// ErrNoProgram is wrapped by the error of an attempt to run what is not there.
var ErrNoProgram = errors.New("no such program")

// Exec turns the calling process into a command inside a namespace, on some cores (none: on
// all). It returns only if that fails. The command's files, /sys among them, are still those of
// the machine.
func (w *Writer) Exec(namespace string, cpus []int, args []string) error {
	if _, err := w.ownID(namespace); err != nil {
		return err
	}
	program, err := exec.LookPath(args[0])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoProgram, err)
	}
	file, err := os.Open(host.NamespacePath(namespace))
	if err != nil {
		return fmt.Errorf("run in %s: %w", namespace, err)
	}
	defer file.Close()
	// The new program inherits the namespaces of the thread that starts it. If
	// that fails the thread is in the wrong place, and stays locked for it: the
	// process has nothing left to do but to say so and end.
	runtime.LockOSThread()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", namespace, err)
	}
	if len(cpus) > 0 {
		if err := setAffinity(0, cpus); err != nil {
			return err
		}
	}
	return fmt.Errorf("run %s in %s: %w", program, namespace, syscall.Exec(program, args, os.Environ()))
}
