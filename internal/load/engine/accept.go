package engine

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// takeCalls serves one connection after the other. Those that are accepted have the
// receive timeout of the listener.
func (p *passive) takeCalls() error {
	listener := p.entry
	if err := listener.heat(false, ioTimeout); err != nil {
		return err
	}
	var from unix.RawSockaddrInet4
	for {
		conn, err := listener.acceptFrom(&from)
		hot := listener.hot
		switch {
		case errors.Is(err, unix.EAGAIN):
			hot = false // nobody has called for long: the slice is over, its end seen or not
		case err != nil && acceptFailed(err) != nil:
			return err
		case err != nil:
		case !p.callers.include(&from):
			p.server.refuse(conn)
		default:
			hot = p.takeCall(conn)
		}
		if hot == listener.hot {
			continue
		}
		timeout := ioTimeout
		if hot {
			timeout = hotTimeout
		}
		if err := listener.heat(hot, timeout); err != nil {
			return err
		}
	}
}

// takeCall answers on one connection, and closes it first. It tells whether a slice
// runs from here on. What goes wrong the client sees.
func (p *passive) takeCall(conn socket) (hot bool) {
	n, err := conn.recvMessage(p.buf, p.server.plan.Size)
	switch {
	case err != nil:
	case p.buf[0] == frameMark:
		err = p.control(&conn, p.buf[:n])
	default:
		if spin := p.server.plan.Arms[p.arm].Spin; spin > 0 {
			p.clock.spin(spin.Nanoseconds())
		}
		err = conn.sendAll(p.reply(n))
	}
	if err != nil {
		conn.abort()
	} else {
		conn.close()
	}
	return conn.hot
}

// acceptPause is how long a thread waits that has no room for a connection.
const acceptPause = 10 * time.Millisecond

// acceptFailed tells whether an error of accept ends the listener; nil: it is of one connection,
// or passes. As Linux gives a new connection's own errors to accept, those are many.
func acceptFailed(err error) error {
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
		time.Sleep(acceptPause) // the connection still waits
		return nil
	case errors.Is(err, unix.EBADF), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOTSOCK), errors.Is(err, unix.EFAULT):
		return err
	}
	return nil
}
