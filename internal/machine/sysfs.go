package machine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Sysfs runs fn with a folder that shows the devices of the calling thread's
// namespace: what is mounted at /sys shows those of another one. Nothing is
// mounted anywhere. It takes privileges over the namespace.
func Sysfs(fn func(root string) error) error {
	config, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open sysfs: %w", err)
	}
	defer unix.Close(config)
	if err := unix.FsconfigCreate(config); err != nil {
		return fmt.Errorf("set up sysfs: %w", err)
	}
	fd, err := unix.Fsmount(config, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("mount sysfs: %w", err)
	}
	root := os.NewFile(uintptr(fd), "sysfs")
	defer root.Close()
	return fn(fmt.Sprintf("/proc/self/fd/%d", fd))
}
