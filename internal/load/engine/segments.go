package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
)

// mostMerged is the room for datagrams that arrive as one.
const mostMerged = 64 << 10

// segmenter sends many datagrams in one call.
type segmenter struct {
	buf  []byte
	size int
}

// newSegmenter lets the socket cut what it sends.
func newSegmenter(s socket, size int) (*segmenter, error) {
	if err := unix.SetsockoptInt(s.fd, unix.SOL_UDP, unix.UDP_SEGMENT, size); err != nil {
		return nil, fmt.Errorf("set UDP_SEGMENT: %w", err)
	}
	return &segmenter{make([]byte, size*min(load.MaxSegments, max(1, load.MaxDatagram/size))), size}, nil
}

func (g *segmenter) send(s socket) (int, error) { return g.sendSome(s, len(g.buf)/g.size) }

// sendSome sends n datagrams, or as many as go in a call.
func (g *segmenter) sendSome(s socket, n int) (int, error) {
	n = min(n, len(g.buf)/g.size)
	err := s.sendAll(g.buf[:n*g.size])
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EMSGSIZE):
		return 0, fmt.Errorf("send datagrams of %d bytes with UDP_SEGMENT: they do not fit the path's MTU: %w", g.size, err)
	case errors.Is(err, unix.EIO):
		return 0, fmt.Errorf("send with UDP_SEGMENT: the device does not compute UDP checksums: %w", err)
	}
	return n, err
}

// merged receives datagrams that the kernel has merged.
type merged struct {
	buf     []byte
	header  unix.Msghdr
	vector  unix.Iovec
	control [32]byte
}

// mergeReceived lets the socket take merged datagrams.
func (s socket) mergeReceived() error {
	if err := unix.SetsockoptInt(s.fd, unix.SOL_UDP, unix.UDP_GRO, 1); err != nil {
		return fmt.Errorf("set UDP_GRO: %w", err)
	}
	return nil
}

// newMerged makes room for merged datagrams.
func newMerged() *merged {
	m := &merged{buf: make([]byte, mostMerged)}
	m.vector.Base = unsafe.SliceData(m.buf)
	m.vector.SetLen(len(m.buf))
	m.header.Iov = &m.vector
	m.header.SetIovlen(1)
	m.header.Control = &m.control[0]
	return m
}

// recv waits for datagrams, unless the flags of recvmsg(2) say otherwise. All have size bytes
// but the last, which may be shorter.
func (m *merged) recv(s socket, flags int) (b []byte, size int, err error) {
	m.header.SetControllen(len(m.control))
	n, err := s.call(unix.SYS_RECVMSG, unsafe.Pointer(&m.header), flags, 0)
	if err != nil {
		return nil, 0, err
	}
	if n == 0 {
		return nil, 0, errPeerGone
	}
	size = n
	h := (*unix.Cmsghdr)(unsafe.Pointer(&m.control[0]))
	if int(m.header.Controllen) >= unix.SizeofCmsghdr+4 && h.Level == unix.SOL_UDP && h.Type == unix.UDP_GRO {
		if cut := int(binary.NativeEndian.Uint32(m.control[unix.SizeofCmsghdr:])); cut > 0 {
			size = cut
		}
	}
	return m.buf[:n], size, nil
}

// sinkMerged counts messages as sink does, as many at a time as the kernel merged.
func (p *passive) sinkMerged() error {
	conn, in := p.conn, newMerged()
	if err := conn.mergeReceived(); err != nil {
		return err
	}
	for {
		b, size, err := in.recv(conn, 0)
		if err == nil {
			err = p.countMerged(&conn, b, size)
		} else {
			err = conn.cool(err)
		}
		if err != nil {
			return err
		}
	}
}

// countMerged counts the messages of merged datagrams, and answers control frames among them.
func (p *passive) countMerged(conn *socket, b []byte, size int) error {
	for len(b) > 0 {
		one := b[:min(size, len(b))]
		b = b[len(one):]
		if one[0] != frameMark {
			p.count()
		} else if err := p.control(conn, one); err != nil {
			return err
		}
	}
	return nil
}
