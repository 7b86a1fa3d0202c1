package engine

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/thread"
)

// forever is no limit for [epollGroup.wait].
const forever = time.Duration(-1)

// serveGroup is the passive end of flows of an arm that share a thread.
func (s *Server) serveGroup(ends []*passive) error {
	if err := thread.PinAs(s.load.Name+" server", s.plan.ServerCore(s.load, ends[0].flow)); err != nil {
		return err
	}
	take := (*passive).answerReady
	if s.load.Kind == load.Stream {
		take = newGroupSink(s).take
	}
	c, err := newEpollGroup(len(ends))
	if err != nil {
		return err
	}
	defer c.close()
	// The thread's own copies of the sockets; Close looks at the others.
	conns := make([]socket, len(ends))
	for i, p := range ends {
		if !p.awaitClient() {
			return nil
		}
		conns[i] = p.conn
		if s.load.Segments {
			if err := p.conn.mergeReceived(); err != nil {
				return err
			}
		}
		if err := c.add(p.conn, i); err != nil {
			return err
		}
	}
	for open := len(ends); open > 0; {
		timeout := forever
		if c.hot {
			timeout = hotTimeout
		}
		events, err := c.wait(timeout)
		if err != nil {
			return err
		}
		if len(events) == 0 { // nothing came for long: the slice is over, its end seen or not
			if err := coolAll(conns); err != nil {
				return err
			}
			c.hot = false
		}
		for _, e := range events {
			p, conn := ends[e.Fd], &conns[e.Fd]
			switch {
			case e.Events&unix.EPOLLHUP != 0: // of a datagram socket nothing else tells it
				err = errPeerGone
			default:
				err = take(p, conn)
				c.hot = conn.hot
			}
			if err != nil {
				s.recordError(err)
				c.remove(*conn)
				open--
			}
		}
	}
	return nil
}

func coolAll(conns []socket) error {
	for i := range conns {
		if conns[i].hot {
			if err := conns[i].heat(false, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// answerReady echoes the message that is there, or answers a control frame.
func (p *passive) answerReady(conn *socket) error {
	n, err := conn.recvReady(p.tcp, p.buf, p.server.plan.Size)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return nil
	case err != nil:
		return err
	case n == 0:
		return errPeerGone
	case p.buf[0] == frameMark:
		return p.control(conn, p.buf[:n])
	}
	if spin := p.server.plan.Arms[p.arm].Spin; spin > 0 {
		p.clock.spin(spin.Nanoseconds())
	}
	if err := conn.sendAll(p.reply(n)); err != nil && !lossy(err) {
		return err
	}
	return nil
}
