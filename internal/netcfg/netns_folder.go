package netcfg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// folderLockLimit is how long another process may hold the lock of the folder of
// namespaces. Then the work goes on without it, as ip's does.
const folderLockLimit = 5 * time.Second

// shareNetnsFolder makes the folder of named namespaces, and a shared mount of it,
// as ip(8) and container runtimes do before their first namespace since the
// machine was started. They bind the folder over itself for that: all that is
// mounted in it by then stays beneath, where nobody can unmount it.
func shareNetnsFolder() error {
	const folder = host.NamespaceFolder
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	share := func() error { return unix.Mount("", folder, "none", unix.MS_SHARED|unix.MS_REC, "") }
	err := share()
	if errors.Is(err, unix.EINVAL) { // it is no mount yet
		err = bindFolder(folder, share)
	}
	if err != nil {
		return fmt.Errorf("make %s a shared mount: %w", folder, err)
	}
	return nil
}

// bindFolder binds the folder over itself, and shares it, if nobody else has done
// that when it gets the lock.
func bindFolder(folder string, share func() error) error {
	lock, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer lock.Close()
	lockFolder(lock)
	if err := share(); !errors.Is(err, unix.EINVAL) {
		return err
	}
	if err := unix.Mount(folder, folder, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return share()
}

// lockFolder takes the lock by which ip keeps two processes from binding the
// folder over itself. It is let go of when the file is closed.
func lockFolder(folder *os.File) {
	for end := time.Now().Add(folderLockLimit); time.Now().Before(end); time.Sleep(readyPoll) {
		err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return // it is taken, or the file system has no locks
		}
	}
}

// removeHidden removes a name on which something is mounted that cannot be
// reached, because another mount lies over it. The kernel refuses that only where
// the mount is: in a mount namespace without it the name goes, and with it what is
// mounted on it anywhere. So this is done in a copy of the mounts of this process,
// where what lies over the name is taken away first.
func removeHidden(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	name := filepath.Base(path)
	return inCopyOfMounts(func() error {
		for {
			err := unix.Unlinkat(int(folder.Fd()), name, 0)
			if !errors.Is(err, unix.EBUSY) {
				return err
			}
			mounted, listErr := mountsOn(name)
			if listErr != nil {
				return errors.Join(err, listErr)
			}
			if !unmountFirst(append(mounted, filepath.Dir(path), filepath.Dir(filepath.Dir(path)))) {
				return fmt.Errorf("%w: another mount hides what is mounted at %s; unmount that, and try again", err, strings.Join(mounted, ", "))
			}
		}
	})
}

// hiddenID gives the namespace that is mounted on a name, where another mount lies over it.
func hiddenID(path string) (id host.NamespaceID, err error) {
	err = inCopyOfMounts(func() error {
		for {
			var err error
			if id, err = host.ID(path); err == nil {
				return nil
			}
			if !unmountFirst([]string{filepath.Dir(path), filepath.Dir(filepath.Dir(path))}) {
				return err
			}
		}
	})
	return id, err
}

// unmountFirst takes away the first of some mounts that can be.
func unmountFirst(mounts []string) bool {
	return slices.ContainsFunc(mounts, func(path string) bool {
		return unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil
	})
}

// mountsOn lists where something is mounted on a file of that name, in the mount
// namespace of this thread.
func mountsOn(name string) (paths []string, err error) {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && filepath.Base(fields[4]) == name {
			paths = append(paths, fields[4])
		}
	}
	return paths, err
}

// inCopyOfMounts runs fn on a thread with a copy of the mounts of this process. What
// fn mounts and unmounts there is nowhere else. The thread is never used again: its
// goroutine ends with the thread still locked, and the runtime then ends the thread.
func inCopyOfMounts(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() { // the first thread stands for the process, and does not end
			done <- inCopyOfMounts(fn)
			runtime.UnlockOSThread()
			return
		}
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "none", unix.MS_PRIVATE|unix.MS_REC, "")
		}
		if err == nil {
			err = fn()
		}
		done <- err
	}()
	return <-done
}
