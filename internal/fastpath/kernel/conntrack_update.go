package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/netcfg"
)

// UpdateEvents says when somebody changes connections by conntrack's own interface, such as their
// marks. What packets change, and what Venturi changes, is not reported.
type UpdateEvents struct {
	n    *netcfg.Namespace
	file *os.File // the socket
	on   bool
}

// Netlink ports of Venturi's conntrack sockets begin with these bits. The kernel chooses others, and
// programs mostly use the number of their process.
const (
	ownPorts    = 0x46500000
	ownPortMask = 0xffff0000
	portTries   = 16
)

// bindOwn binds a netlink socket to a port of Venturi's own.
func bindOwn(fd int) (err error) {
	for range portTries {
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: ownPorts | rand.Uint32N(^uint32(ownPortMask)+1)})
		if !errors.Is(err, unix.EADDRINUSE) {
			return err
		}
	}
	return err
}

// updateBuffer holds a burst of some thousand events. If some are lost, others have come.
const updateBuffer = 1 << 20 // of the socket, bytes

// OpenUpdateEvents opens the events. None is reported before [UpdateEvents.Listen].
func OpenUpdateEvents(n *netcfg.Namespace) (*UpdateEvents, error) {
	fd, err := netfilterSocket(n, updateBuffer)
	if err != nil {
		return nil, n.Wrap("open connection tracking", err)
	}
	if err := keepForeign(fd); err != nil {
		return nil, n.Wrap("listen to connection tracking", errors.Join(err, unix.Close(fd)))
	}
	return &UpdateEvents{n: n, file: os.NewFile(uintptr(fd), "conntrack")}, nil
}

// keepForeign filters a socket's messages by their header's port, which is that of whoever has caused
// them: 0 is the kernel, for packets.
func keepForeign(fd int) error {
	const portAt = 12 // struct nlmsghdr
	swapped := func(v uint32) uint32 { return binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, v)) }
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: portAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 3},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: swapped(ownPortMask)},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: swapped(ownPorts), SkipTrue: 1},
		bpf.RetConstant{Val: math.MaxUint32},
		bpf.RetConstant{},
	})
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}

// Listen starts or ends the events: while somebody listens, the kernel makes one of each change of a
// connection. changed reports whether it was otherwise before.
func (e *UpdateEvents) Listen(on bool) (changed bool, err error) {
	if e.on == on {
		return false, nil
	}
	option := unix.NETLINK_DROP_MEMBERSHIP
	if on {
		option = unix.NETLINK_ADD_MEMBERSHIP
	}
	raw, err := e.file.SyscallConn()
	if err == nil {
		var failed error
		err = raw.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_NETLINK, option, unix.NFNLGRP_CONNTRACK_UPDATE)
		})
		err = errors.Join(err, failed)
	}
	if err != nil {
		return false, e.n.Wrap("listen to connection tracking", err)
	}
	e.on = on
	return true, nil
}

// Close closes the socket.
func (e *UpdateEvents) Close() error { return e.file.Close() }

// Follow calls tell after changes, once for those that come together, until ctx ends.
func (e *UpdateEvents) Follow(ctx context.Context, tell func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = e.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := e.file.SyscallConn()
	if err != nil {
		return e.n.Wrap("listen to connection tracking", err)
	}
	buf := make([]byte, os.Getpagesize())
	for {
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			any := false
			for range batchSize {
				switch _, err := unix.Read(int(fd), buf); {
				case errors.Is(err, unix.EAGAIN):
					return any
				case errors.Is(err, unix.EINTR):
				case err != nil && !errors.Is(err, unix.ENOBUFS):
					failed = err
					return true
				default:
					any = true
				}
			}
			return true
		})
		if ctx.Err() != nil {
			return nil
		}
		if err := errors.Join(err, failed); err != nil {
			return e.n.Wrap("listen to connection tracking", fmt.Errorf("receive: %w", err))
		}
		if err := tell(); err != nil {
			return err
		}
	}
}
