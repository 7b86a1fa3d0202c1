package iperf3

import (
	"context"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// udpSockets opens the server's sockets of UDP streams.
type udpSockets interface {
	listen(ctx context.Context, at *net.UDPAddr) (net.PacketConn, error)
	// dial opens one at the same address for one peer.
	dial(ctx context.Context, at *net.UDPAddr, peer net.Addr) (net.Conn, error)
}

// kernelUDP are real ones.
type kernelUDP struct{}

func (kernelUDP) listen(ctx context.Context, at *net.UDPAddr) (net.PacketConn, error) {
	config := net.ListenConfig{Control: reuse}
	return config.ListenPacket(ctx, "udp", at.String())
}

func (kernelUDP) dial(ctx context.Context, at *net.UDPAddr, peer net.Addr) (net.Conn, error) {
	dialer := net.Dialer{LocalAddr: at, Control: reuse}
	return dialer.DialContext(ctx, "udp", peer.String())
}

// reuse lets several sockets have one port.
func reuse(_, _ string, c syscall.RawConn) (err error) {
	cerr := c.Control(func(fd uintptr) {
		err = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	})
	return errors.Join(cerr, err)
}
