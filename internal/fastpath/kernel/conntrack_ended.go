package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/netcfg"
	"golang.org/x/sys/unix"
)

// Endings tells which connections conntrack forgets, from when it was opened.
type Endings struct {
	n    *netcfg.Namespace
	file *os.File // the socket
}

// endedRoom is for what conntrack forgets in a burst: 10,000 connections and more.
const endedRoom = 16 << 20 // bytes of the kernel's memory

// OpenEndings begins to listen.
func OpenEndings(n *netcfg.Namespace) (*Endings, error) {
	fd, err := netfilter(n, endedRoom)
	if err != nil {
		return nil, n.Wrap("open connection tracking", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_CONNTRACK_DESTROY); err != nil {
		return nil, n.Wrap("listen to connection tracking", errors.Join(err, unix.Close(fd)))
	}
	return &Endings{n, os.NewFile(uintptr(fd), "conntrack")}, nil
}

// Close ends it.
func (e *Endings) Close() error { return e.file.Close() }

// Follow tells, until ctx ends, of all connections of TCP and UDP over IPv4 that
// conntrack forgets, as many at once as there are; the list is used again after
// tell has returned. lost says that the kernel had to leave some out: it does so
// until it has no more to hand out, and that is said until then.
func (e *Endings) Follow(ctx context.Context, tell func(ended []Connection, lost bool) error) error {
	stop := context.AfterFunc(ctx, func() { _ = e.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := e.file.SyscallConn()
	if err != nil {
		return e.n.Wrap("listen to connection tracking", err)
	}
	buf := make([]byte, os.Getpagesize())
	var ended []Connection
	losing := false
	for {
		var lost bool
		var failed error
		ended = ended[:0]
		err := raw.Read(func(fd uintptr) bool {
			for len(ended) < atOnce {
				n, err := unix.Read(int(fd), buf)
				switch {
				case errors.Is(err, unix.EINTR):
					continue
				case errors.Is(err, unix.ENOBUFS):
					losing = true
					continue
				case errors.Is(err, unix.EAGAIN):
					lost, losing = losing, false
					return lost || len(ended) > 0
				case err != nil:
					failed = err
					return true
				}
				eachMessage(buf[:n], func(m message) {
					if c, ok := m.connection(); ok && m.kind == trackMessage(trackDelete) {
						ended = append(ended, c)
					}
				})
			}
			lost = losing
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
		if err := tell(ended, lost); err != nil {
			return err
		}
	}
}
