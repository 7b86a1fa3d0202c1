package host

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// PathProbe says what becomes of datagrams of a size.
type PathProbe int

// What it may be.
const (
	ProbeUnknown  PathProbe = iota // the peer does not answer small ones either
	ProbeArrives                   // they arrive
	ProbeRefused                   // the path carries less, and somebody on it says so
	ProbeVanishes                  // they vanish without a word, and small ones arrive
)

const (
	// probePort is traceroute's: nobody listens there, so that the kernel of the peer answers.
	probePort  = 33434
	probeTries = 3
	smallProbe = 100
	headers    = 28 // of IPv4 and UDP
)

// probeAnswer is how long an answer may take.
var probeAnswer = ScaleTimeout(400 * time.Millisecond)

// ProbePath sends a few datagrams to a peer that may not be fragmented on the way, from the
// namespace of the calling thread. size is that of the IP packet.
func ProbePath(peer netip.Addr, size int) (PathProbe, error) {
	small, err := probe(peer, smallProbe)
	if err != nil || small != ProbeArrives {
		return ProbeUnknown, err
	}
	full, err := probe(peer, size)
	if err != nil || full != ProbeVanishes {
		return full, err
	}
	// The peer may have fallen silent for another reason.
	if small, err = probe(peer, smallProbe); err != nil || small != ProbeArrives {
		return ProbeUnknown, err
	}
	return ProbeVanishes, nil
}

// probe sends datagrams of a size until one is answered.
func probe(peer netip.Addr, size int) (PathProbe, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ProbeUnknown, fmt.Errorf("open a socket: %w", err)
	}
	defer unix.Close(fd)
	wait := unix.NsecToTimeval(probeAnswer.Nanoseconds())
	err = errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
		unix.Connect(fd, &unix.SockaddrInet4{Port: probePort, Addr: peer.As4()}))
	if err != nil {
		return ProbeUnknown, fmt.Errorf("prepare a socket: %w", err)
	}
	for range probeTries {
		_, err := unix.Write(fd, make([]byte, size-headers))
		if err == nil {
			_, err = unix.Read(fd, make([]byte, 1))
		}
		switch {
		case err == nil || errors.Is(err, unix.ECONNREFUSED):
			return ProbeArrives, nil
		case errors.Is(err, unix.EMSGSIZE):
			return ProbeRefused, nil
		case errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH):
			return ProbeUnknown, nil
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		default:
			return ProbeUnknown, fmt.Errorf("send a datagram of %d bytes to %s: %w", size, peer, err)
		}
	}
	return ProbeVanishes, nil
}
