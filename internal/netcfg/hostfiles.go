package netcfg

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// EnterHostFiles starts this program anew with arguments, in its own place, where the first process sees its
// files: in a container that has the host's processes, on the host. There already, it returns.
func EnterHostFiles(args, env []string) error {
	const hostMounts = "/proc/1/ns/mnt"
	host, err := os.Readlink(hostMounts)
	if err != nil {
		return fmt.Errorf("find the host's file system: %w", err)
	}
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil || own == host {
		return err
	}
	program, err := os.Open("/proc/self/exe") // the host has no file of it
	if err != nil {
		return fmt.Errorf("open own program: %w", err)
	}
	mounts, err := os.Open(hostMounts)
	if err != nil {
		return fmt.Errorf("open the host's file system: %w", err)
	}
	runtime.LockOSThread() // for ever: the new program takes this thread's place
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("part from the other threads' root: %w", err)
	}
	if err := unix.Setns(int(mounts.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the host's file system: %w", err)
	}
	return fmt.Errorf("start on the host's file system: %w", syscall.Exec(fmt.Sprintf("/proc/self/fd/%d", program.Fd()), args, env))
}
