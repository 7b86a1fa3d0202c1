package engine

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// byThread deals what there is of each flow out to threads, in turn.
func byThread[T any](threads int, flows []T) [][]T {
	groups := make([][]T, threads)
	for flow, f := range flows {
		groups[flow%threads] = append(groups[flow%threads], f)
	}
	return groups
}

// epollGroup waits on many sockets at once.
type epollGroup struct {
	fd     int
	events []unix.EpollEvent
	hot    bool // see socket
}

func newEpollGroup(sockets int) (*epollGroup, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open epoll: %w", err)
	}
	return &epollGroup{fd: fd, events: make([]unix.EpollEvent, sockets)}, nil
}

// add makes the group wait until something can be read of a socket, too; events carry its
// number.
func (c *epollGroup) add(s socket, number int) error { return c.addFor(unix.EPOLLIN, s, number) }

// addFor is add for any kind of event.
func (c *epollGroup) addFor(events uint32, s socket, number int) error {
	event := unix.EpollEvent{Events: events, Fd: int32(number)}
	if err := unix.EpollCtl(c.fd, unix.EPOLL_CTL_ADD, s.fd, &event); err != nil {
		return fmt.Errorf("wait for a socket: %w", err)
	}
	return nil
}

// remove takes a socket out.
func (c *epollGroup) remove(s socket) { _ = unix.EpollCtl(c.fd, unix.EPOLL_CTL_DEL, s.fd, nil) }

// wait returns what is ready; nothing: the time is over. A negative time is no limit.
func (c *epollGroup) wait(d time.Duration) ([]unix.EpollEvent, error) {
	ms := int(d.Milliseconds())
	if d < 0 {
		ms = -1
	}
	first := unsafe.Pointer(unsafe.SliceData(c.events))
	for hot := c.hot; ; hot = false {
		var n uintptr
		var errno syscall.Errno
		if hot {
			n, _, errno = syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(c.fd), uintptr(first), uintptr(len(c.events)), uintptr(ms), 0, 0)
		} else {
			n, _, errno = syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(c.fd), uintptr(first), uintptr(len(c.events)), uintptr(ms), 0, 0)
		}
		if errno == 0 {
			return c.events[:n], nil
		}
		if errno != unix.EINTR {
			return nil, fmt.Errorf("wait for sockets: %w", errno)
		}
	}
}

func (c *epollGroup) close() { _ = unix.Close(c.fd) }

// recvReady takes the message that a socket is said to have; EAGAIN: there is none
// after all.
func (s socket) recvReady(tcp bool, b []byte, size int) (int, error) {
	if tcp {
		return s.recvMessage(b, size)
	}
	return s.recvNow(b)
}
