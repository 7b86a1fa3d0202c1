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
	return execIn(host.NamespacePath(namespace), cpus, program, args)
}

// EnterNetns starts this program anew with arguments, in its own place, in the network namespace with this
// file. In it already, it returns. The program's files, /sys among them, are still those of the machine.
func EnterNetns(file string, args []string) error {
	there, err := host.ID(file)
	if err != nil {
		return err
	}
	if own, err := host.ID("/proc/self/ns/net"); err != nil || own == there {
		return err
	}
	return execIn(file, nil, "/proc/self/exe", args)
}

// NameProcess names this process as pgrep finds it: one that was started by a descriptor, or by
// /proc/self/exe, is called after that.
func NameProcess(name string) {
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0) // it works by any name
}

// execIn turns the calling process into a program inside the namespace with this file.
func execIn(netns string, cpus []int, program string, args []string) error {
	file, err := os.Open(netns)
	if err != nil {
		return fmt.Errorf("run in %s: %w", netns, err)
	}
	defer file.Close()
	// The new program inherits the namespaces of the thread that starts it. If
	// that fails the thread is in the wrong place, and stays locked for it: the
	// process has nothing left to do but to say so and end.
	runtime.LockOSThread()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", netns, err)
	}
	if len(cpus) > 0 {
		if err := setAffinity(0, cpus); err != nil {
			return err
		}
	}
	return fmt.Errorf("run %s in %s: %w", program, netns, syscall.Exec(program, args, os.Environ()))
}
