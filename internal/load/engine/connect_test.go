package engine

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A connection that was begun, and whose connect a signal broke off, is waited
// for: until it is there, is refused, or takes too long.
func TestConnected(t *testing.T) {
	at := func(s socket) netip.AddrPort {
		sa, err := unix.Getsockname(s.fd)
		if err != nil {
			t.Fatal(err)
		}
		in := sa.(*unix.SockaddrInet4)
		return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port))
	}
	bound := func(kind int) socket {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|kind, 0)
		if err == nil {
			err = unix.Bind(fd, sockaddr(netip.MustParseAddrPort("127.0.0.1:0")))
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return socket{fd: fd}
	}
	listening, refusing, full := bound(0), bound(0), bound(0)
	for _, s := range []socket{listening, full} {
		if err := unix.Listen(s.fd, 0); err != nil {
			t.Fatal(err)
		}
	}
	// With a backlog of none the second connection is not answered.
	if err := unix.Connect(bound(0).fd, sockaddr(at(full))); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		to   socket
		want error
	}{"there": {listening, nil}, "refused": {refusing, unix.ECONNREFUSED}, "late": {full, unix.ETIMEDOUT}} {
		s := bound(unix.SOCK_NONBLOCK)
		if err := unix.Connect(s.fd, sockaddr(at(c.to))); err != nil && !errors.Is(err, unix.EINPROGRESS) && !errors.Is(err, c.want) {
			t.Fatal(err)
		} else if err != nil && errors.Is(err, c.want) {
			continue
		}
		if err := s.connected(100 * time.Millisecond); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
