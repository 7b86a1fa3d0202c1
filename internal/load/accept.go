package load

import (
	"errors"

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
		case errors.Is(err, unix.ECONNABORTED):
		case err != nil:
			return err
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
		err = conn.sendAll(p.buf[:n])
	}
	if err != nil {
		conn.abort()
	} else {
		conn.close()
	}
	return conn.hot
}
