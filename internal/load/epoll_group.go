package load

import (
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sharedThreadSize is the size of messages up to which one thread serves all flows of an
// end, bytes. Whatever is sent of that size the other end's kernel takes, so a send
// never waits for a thread that waits to send, too.
const sharedThreadSize = 16 << 10

// sharesThread tells whether all flows of an arm share one thread at each end. They
// share a core in any case, and switching threads there costs as much as the packets.
func (p *Plan) sharesThread(l Load) bool {
	return l.Kind == PingPong && p.Flows > 1 && max(p.Size, p.Response) <= sharedThreadSize
}

// threads is how many an end has while a slice runs.
func (p *Plan) threads(l Load) int {
	if p.sharesThread(l) {
		return 1
	}
	return p.Flows
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

// add makes the group wait for a socket too; events carry its number.
func (c *epollGroup) add(s socket, number int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(number)}
	if err := unix.EpollCtl(c.fd, unix.EPOLL_CTL_ADD, s.fd, &event); err != nil {
		return fmt.Errorf("wait for a socket: %w", err)
	}
	return nil
}

// remove takes a socket out.
func (c *epollGroup) remove(s socket) { _ = unix.EpollCtl(c.fd, unix.EPOLL_CTL_DEL, s.fd, nil) }

// wait returns what can be read; nothing: the time is over. A negative time is no limit.
func (c *epollGroup) wait(d time.Duration) ([]unix.EpollEvent, error) {
	ms := int(d.Milliseconds())
	if d < 0 {
		ms = -1
	}
	first := unsafe.Pointer(unsafe.SliceData(c.events))
	for {
		var n uintptr
		var errno syscall.Errno
		if c.hot {
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
	return s.call(unix.SYS_RECVFROM, unsafe.Pointer(unsafe.SliceData(b)), len(b), unix.MSG_DONTWAIT)
}

// groupFlows opens the group of an arm's flows.
func groupFlows(flows []*active) (*epollGroup, error) {
	c, err := newEpollGroup(len(flows))
	if err != nil {
		return nil, err
	}
	for i, a := range flows {
		if err := c.add(a.conn, i); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// pingPong is the slice of all flows of an arm, on the calling thread; see
// [active.pingPong].
func (c *epollGroup) pingPong(flows []*active, head, timed time.Duration) (err error) {
	for _, a := range flows {
		a.ping, a.sent = pingCounts{}, sendCounts{}
		if err := a.conn.heat(true, hotTimeout); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.conn.heat(false, a.answerTimeout)) }()
	}
	c.hot = true
	defer func() { c.hot = false }()
	if err := c.exchange(flows, head); err != nil {
		return err
	}
	for _, a := range flows {
		a.ping = pingCounts{headReplies: a.ping.replies}
		a.rtt.Reset()
	}
	return c.exchange(flows, timed)
}

// exchange keeps one request outstanding on each flow for d, and waits for the last
// replies. The end of one request is the start of the next, as in [active.exchange].
func (c *epollGroup) exchange(flows []*active, d time.Duration) error {
	clock := flows[0].clock
	now := clock.now()
	end, checked := now+d.Nanoseconds(), now
	open := 0
	next := func(a *active, at int64) error {
		if a.since = 0; at >= end {
			open--
			return nil
		}
		a.since = at
		return a.request()
	}
	for _, a := range flows {
		open++
		if err := next(a, now); err != nil {
			return err
		}
	}
	for open > 0 {
		events, err := c.wait(hotTimeout / 5)
		if err != nil {
			return err
		}
		for _, e := range events {
			a := flows[e.Fd]
			got, err := a.reply()
			if err != nil {
				return err
			}
			if now = clock.now(); !got || a.since == 0 {
				continue
			}
			a.ping.replies++
			a.ping.rttSum += now - a.since
			a.ping.elapsed += now - a.since
			_ = a.rtt.RecordValue(now - a.since)
			if err := next(a, now); err != nil {
				return err
			}
		}
		if len(events) == 0 {
			now = clock.now()
		}
		if now-checked < minTimeout.Nanoseconds()/4 {
			continue
		}
		checked = now
		for _, a := range flows {
			switch waited := now - a.since; {
			case a.since == 0:
			case a.tcp && waited > ioTimeout.Nanoseconds():
				return errNoAnswer
			case !a.tcp && waited > a.timeout.Nanoseconds():
				a.ping.lost++
				if err := next(a, now); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// request sends the next request.
func (a *active) request() error {
	message := a.buf[:a.plan.Size]
	a.number++
	putNumber(message, a.number)
	a.ping.requests++
	if err := a.conn.sendAll(message); err != nil && !lossy(err) {
		return fmt.Errorf("send request: %w", err)
	}
	return nil
}

// reply takes what has come; false: it is not the reply to the last request.
func (a *active) reply() (bool, error) {
	n, err := a.conn.recvReady(a.tcp, a.buf, a.plan.replySize())
	switch {
	case errors.Is(err, unix.EAGAIN) && !a.tcp:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("receive reply: %w", err)
	case n == a.plan.replySize() && a.isReply(a.buf[:n]):
		return true, nil
	case a.tcp:
		return false, errNotSent
	}
	if n > 0 && a.buf[0] != frameMark {
		a.ping.late++
	}
	return false, nil
}
