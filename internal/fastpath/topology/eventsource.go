package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// eventSource reads the notifications of a socket.
type eventSource struct {
	conn    *netlink.Conn
	receive func() ([]netlink.Message, error) // waits for the next datagram
	judge   func(netlink.Message) Event
	forget  func() // discards the stored state; nil: there is none
	// lost: the kernel drops notifications. It reports that only once, and does so until its queue is drained. Until
	// then anything may have changed.
	lost bool
}

// batchTime is how long datagrams are read behind the first before anybody is told of it: about as long as there is
// between two epochs at least.
const batchTime = 2 * time.Millisecond

// forward reports notifications that are changes, those that are pending together in one batch: whoever makes a
// thousand changes at once ends what was learned a few times, and not a thousand times.
func (s *eventSource) forward(ctx context.Context, events chan<- []Event, ended chan<- error) {
	for ctx.Err() == nil {
		batch, err := s.readBatch()
		if len(batch) > 0 {
			select {
			case events <- batch:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			ended <- fmt.Errorf("listen to the kernel's notifications: %w", err)
			return
		}
	}
}

func (s *eventSource) readBatch() ([]Event, error) {
	batch, more, err := s.read() // waits
	for begin := time.Now(); more && err == nil && time.Since(begin) < batchTime; {
		var events []Event
		events, more, err = s.read()
		batch = append(batch, events...)
	}
	return batch, err
}

// read reads a datagram, and tells whether there are more.
func (s *eventSource) read() (events []Event, more bool, err error) {
	messages, err := s.receive()
	if errors.Is(err, unix.ENOBUFS) {
		s.lost, err = true, nil
	}
	if err != nil {
		return nil, false, err
	}
	var what Event
	for _, m := range messages {
		if e := s.judge(m); e.Neighbour != (Neighbour{}) || e.PodEnd != (PodEnd{}) {
			events = append(events, e)
		} else {
			what.Add(e)
		}
	}
	if more, err = hasPending(s.conn); err != nil {
		return nil, false, err
	}
	if s.lost {
		what = Event{Changes: RulesChanged | TopologyChanged | BridgeAsks, Cause: LostEvents}
		s.lost = more
		if !more && s.forget != nil { // after the last message that is older than what is read now
			s.forget()
		}
	}
	if what.Changes != 0 {
		events = append(events, what)
	}
	return events, more, nil
}

// hasPending reports whether a notification is queued, or that one was dropped. A look at the queue by recvmsg would
// take the report of that away.
func hasPending(c *netlink.Conn) (is bool, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return false, err
	}
	n, failed := 0, error(nil)
	err = raw.Control(func(fd uintptr) {
		for {
			if n, failed = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); !errors.Is(failed, unix.EINTR) {
				return
			}
		}
	})
	return n > 0, errors.Join(failed, err)
}
