package engine

import (
	"errors"

	"golang.org/x/sys/unix"
)

// mostReceives is how many receive calls a flow has in a row before others that share its
// thread have their turn.
const mostReceives = 8

// groupSink counts the messages of streams that share a thread. Its room is for whichever flow
// is read.
type groupSink struct {
	batch  *batch  // of datagrams that are taken many a call; nil: one
	merged *merged // of merged ones; nil: they come as they were sent
}

func newGroupSink(s *Server) *groupSink {
	g := &groupSink{}
	switch {
	case s.load.Segments:
		g.merged = newMerged()
	case s.plan.Batch > 1:
		g.batch = newBatch(s.plan.Batch, messageRoom(&s.plan), nil)
	}
	return g
}

// take counts what is there of a flow, as far as its turn goes.
func (g *groupSink) take(p *passive, conn *socket) error {
	for range mostReceives {
		err := g.takeOnce(p, conn)
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// takeOnce makes one receive call. Error EAGAIN: nothing is there.
func (g *groupSink) takeOnce(p *passive, conn *socket) error {
	switch {
	case p.tcp:
		return p.takePart(conn)
	case g.merged != nil:
		b, size, err := g.merged.recv(*conn, unix.MSG_DONTWAIT)
		if err != nil {
			return err
		}
		return p.countMerged(conn, b, size)
	case g.batch != nil:
		got, err := g.batch.recv(*conn, unix.MSG_DONTWAIT)
		if err != nil {
			return err
		}
		return p.countBatch(conn, g.batch, got)
	}
	n, err := conn.recvNow(p.buf)
	switch {
	case err != nil:
		return err
	case n == 0:
		return errPeerGone
	case p.buf[0] == frameMark:
		return p.control(conn, p.buf[:n])
	}
	p.count()
	return nil
}

// takePart takes of a message on a TCP connection what is there; see [socket.recvMessage].
// Error EAGAIN: it is not whole.
func (p *passive) takePart(conn *socket) error {
	n, err := conn.recvNow(p.buf[p.filled:p.messageEnd()])
	if err != nil {
		return err
	}
	whole, err := p.countPart(conn, n)
	if err == nil && !whole {
		err = unix.EAGAIN // for the rest
	}
	return err
}

// messageEnd is how long the message is whose beginning is in the buffer.
func (p *passive) messageEnd() int {
	if p.filled > 0 && p.buf[0] == frameMark {
		return frameSize
	}
	return p.server.plan.Size
}
