package host

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// Sysfs runs fn with a folder that shows the devices of the calling thread's
// namespace: what is mounted at /sys shows those of another one. Nothing is
// mounted anywhere. Without privileges over the namespace it is /sys, where that
// shows the same devices.
func Sysfs(fn func(root string) error) error {
	config, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if errors.Is(err, unix.EPERM) && showsOwn("/sys") {
		return fn("/sys")
	}
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

// showsOwn tells whether a sysfs shows the devices that the calling thread's
// namespace has, and no others.
func showsOwn(root string) bool {
	devices, err := net.Interfaces()
	if err != nil {
		return false
	}
	shown, err := sanitize.Files(root, "class/net/*/ifindex")
	if err != nil || len(shown) != len(devices) {
		return false
	}
	r := Reader{Root: root}
	for _, d := range devices {
		address := d.HardwareAddr.String() // empty: it has none
		if r.line("class/net", d.Name, "ifindex") != strconv.Itoa(d.Index) || address != "" && r.line("class/net", d.Name, "address") != address {
			return false
		}
	}
	return true
}
