package host

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// HasExited tells whether a process has exited, with all of its threads: then it holds no file and no lock any
// more. Its command line is gone before that, and so is its first thread.
func HasExited(pid int) (bool, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	if err != nil {
		return false, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return n > 0, nil
}
