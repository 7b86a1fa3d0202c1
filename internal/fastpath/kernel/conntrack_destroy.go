package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"golang.org/x/sys/unix"
)

// DestroyEvents receives conntrack's destroy events from when it was opened.
type DestroyEvents struct {
	n    *netcfg.Namespace
	file *os.File // the socket
}

// Ended is a connection that conntrack has destroyed.
type Ended struct {
	Connection
	Replies Connection // the tuple of its replies: if nothing is translated, that of the connection turned round
}

// IsTranslated tells whether its addresses or ports were translated.
func (e Ended) IsTranslated() bool { return e.Replies.A != e.B || e.Replies.B != e.A }

// destroyBuffer holds a burst of more than 10,000 events.
const destroyBuffer = 16 << 20 // of the socket, bytes

// OpenDestroyEvents starts to listen.
func OpenDestroyEvents(n *netcfg.Namespace) (*DestroyEvents, error) {
	fd, err := netfilterSocket(n, destroyBuffer)
	if err != nil {
		return nil, n.Wrap("open connection tracking", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_CONNTRACK_DESTROY); err != nil {
		return nil, n.Wrap("listen to connection tracking", errors.Join(err, unix.Close(fd)))
	}
	return &DestroyEvents{n, os.NewFile(uintptr(fd), "conntrack")}, nil
}

// Close closes the socket.
func (e *DestroyEvents) Close() error { return e.file.Close() }

// Follow reports, until ctx ends, all TCP and UDP connections that conntrack
// destroys, in batches; the slice is reused after tell has returned. lost says that the
// kernel had to drop events. It stays true until the socket was read empty. more says that
// it was not: others may wait behind these, or there is another call, without any.
func (e *DestroyEvents) Follow(ctx context.Context, tell func(ended []Ended, lost, more bool) error) error {
	stop := context.AfterFunc(ctx, func() { _ = e.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := e.file.SyscallConn()
	if err != nil {
		return e.n.Wrap("listen to connection tracking", err)
	}
	buf := make([]byte, os.Getpagesize())
	var ended []Ended
	losing, more := false, false
	for {
		var lost bool
		var failed error
		ended = ended[:0]
		err := raw.Read(func(fd uintptr) bool {
			for len(ended) < batchSize {
				n, err := unix.Read(int(fd), buf)
				switch {
				case errors.Is(err, unix.EINTR):
					continue
				case errors.Is(err, unix.ENOBUFS):
					losing = true
					continue
				case errors.Is(err, unix.EAGAIN):
					emptied := more
					lost, losing, more = losing, false, false
					return lost || emptied || len(ended) > 0
				case err != nil:
					failed = err
					return true
				}
				for m := range nlmsg.EachMessage(buf[:n]) {
					if m.Kind != ctMessageType(ctDelete) {
						continue
					}
					if e, ok := (message{m}).ended(); ok {
						ended = append(ended, e)
					}
				}
			}
			lost, more = losing, true
			return true
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, syscall.EAGAIN):
			failed = err
		}
		if failed != nil {
			return e.n.Wrap("listen to connection tracking", fmt.Errorf("receive: %w", failed))
		}
		if err := tell(ended, lost, more); err != nil {
			return err
		}
	}
}
