package engine

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// manySender sends datagrams many a call.
type manySender interface {
	send(s socket) (int, error)
	// sendSome sends n, or as many as go, and tells how many went.
	sendSome(s socket, n int) (int, error)
}

// mmsghdr is struct mmsghdr of recvmmsg(2), which x/sys does not have.
type mmsghdr struct {
	header unix.Msghdr
	len    uint32
	_      [4]byte
}

// batch is the room for many datagrams in one system call. All of it is made
// once: the loops allocate nothing.
type batch struct {
	headers []mmsghdr
	vectors []unix.Iovec
	buffers [][]byte
}

// newBatch makes room for n datagrams of size bytes; shared lets all of them be the same bytes.
func newBatch(n, size int, shared []byte) *batch {
	b := &batch{make([]mmsghdr, n), make([]unix.Iovec, n), make([][]byte, n)}
	for i := range n {
		b.buffers[i] = shared
		if shared == nil {
			b.buffers[i] = make([]byte, size)
		}
		b.vectors[i].Base = unsafe.SliceData(b.buffers[i])
		b.vectors[i].SetLen(size)
		b.headers[i].header.Iov = &b.vectors[i]
		b.headers[i].header.SetIovlen(1)
	}
	return b
}

func (b *batch) call(s socket, n int, trap, flags uintptr) (int, error) {
	return s.call(trap, unsafe.Pointer(unsafe.SliceData(b.headers)), min(n, len(b.headers)), flags)
}

func (b *batch) send(s socket) (int, error) { return b.sendSome(s, len(b.headers)) }

// sendSome sends n datagrams, or as many as there is room for.
func (b *batch) sendSome(s socket, n int) (int, error) {
	return b.call(s, n, unix.SYS_SENDMMSG, unix.MSG_NOSIGNAL)
}

// recv takes what is there; with MSG_WAITFORONE it waits for one datagram, with MSG_DONTWAIT
// for none.
func (b *batch) recv(s socket, flags uintptr) (int, error) {
	return b.call(s, len(b.headers), unix.SYS_RECVMMSG, flags)
}

// sinkBatches counts messages as sink does, many a system call.
func (p *passive) sinkBatches(n int) error {
	in, conn := newBatch(n, len(p.buf), nil), p.conn
	for {
		got, err := in.recv(conn, unix.MSG_WAITFORONE)
		if err == nil {
			err = p.countBatch(&conn, in, got)
		} else {
			err = conn.cool(err)
		}
		if err != nil {
			return err
		}
	}
}

// countBatch counts the messages of a batch, and answers control frames among them.
func (p *passive) countBatch(conn *socket, in *batch, got int) error {
	for i := range got {
		size := int(in.headers[i].len)
		if size == 0 {
			return errPeerGone
		}
		b := in.buffers[i][:size]
		if b[0] != frameMark {
			p.count()
			continue
		}
		if err := p.control(conn, b); err != nil {
			return err
		}
	}
	return nil
}
