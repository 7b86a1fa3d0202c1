package e2e

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// connection is one of TCP between the pods: what the local end sends is echoed.
type connection struct {
	local, listener, remote int // -1: none
	sent, arrivedOut        int // bytes
	arrivedIn               int
	owed                    int // to be echoed
}

const (
	tcpPort  = 13 // in a case's block of ports
	tcpBytes = 32 // in a round
)

// connectTCP opens the connections of a case, as far as they can be opened.
func (s *genSite) connectTCP(t *testing.T, c generated) {
	for _, p := range s.paths {
		local, remote := p.Ends[c.machine][0], p.Ends[1-c.machine][0]
		to := sockaddr(remote.Addr, s.ports()+tcpPort)
		p.conn = connection{local: genStream(t, local), listener: genStream(t, remote), remote: -1}
		testenv.Must(t, unix.Bind(p.conn.listener, to))
		testenv.Must(t, unix.Listen(p.conn.listener, 1))
		_ = unix.Connect(p.conn.local, to) // it is under way
	}
	for end := time.Now().Add(genSettle); time.Now().Before(end) && !s.connected(); time.Sleep(genPace) {
	}
}

func genStream(t *testing.T, at host.Endpoint) (fd int) {
	t.Helper()
	testenv.Must(t, host.Do(at.Namespace, func() (err error) {
		fd, err = unix.Socket(domainOf(at.Addr), unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		return err
	}))
	testenv.Must(t, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	testenv.Must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	return fd
}

// connected takes what has been connected, and tells whether all is.
func (s *genSite) connected() bool {
	all := true
	for _, p := range s.paths {
		p.conn.accept()
		all = all && p.conn.remote >= 0
	}
	return all
}

func (c *connection) accept() {
	if c.remote < 0 {
		if fd, _, err := unix.Accept4(c.listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK); err == nil {
			c.remote = fd
		}
	}
}

// send sends what a round does.
func (c *connection) send() {
	if n, err := unix.Write(c.local, make([]byte, tcpBytes)); err == nil {
		c.sent += n
	}
}

// receive takes what has come, and echoes it; it tells whether anything has.
func (c *connection) receive() bool {
	c.accept()
	buf, some := make([]byte, 1<<16), false
	if c.remote >= 0 {
		if n, err := unix.Read(c.remote, buf); err == nil && n > 0 {
			c.arrivedOut, c.owed, some = c.arrivedOut+n, c.owed+n, true
		}
		if n, err := unix.Write(c.remote, buf[:min(c.owed, len(buf))]); err == nil {
			c.owed -= n
		}
	}
	if n, err := unix.Read(c.local, buf); err == nil && n > 0 {
		c.arrivedIn, some = c.arrivedIn+n, true
	}
	return some
}

func (c *connection) close() {
	for _, fd := range []int{c.local, c.listener, c.remote} {
		if fd > 0 {
			unix.Close(fd)
		}
	}
	*c = connection{}
}

// progress is how much of what was sent arrived and came back: "all", "some", "nothing".
func (c connection) progress() string {
	switch {
	case c.arrivedOut == 0 && c.arrivedIn == 0:
		return "nothing"
	case c.arrivedIn >= c.sent:
		return "all"
	}
	return "some"
}
