package engine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// congest gives a TCP socket a congestion control of its own; the sockets that
// a listener accepts have it too. Empty: that of the namespace stays.
func (s socket) congest(algorithm string) error {
	if algorithm == "" {
		return nil
	}
	if err := unix.SetsockoptString(s.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, algorithm); err != nil {
		return fmt.Errorf("set TCP_CONGESTION to %s: %w", algorithm, err)
	}
	return nil
}

// TryCongestion tells whether TCP sockets in a namespace, given by its file, can
// have a congestion control. The loads go on with the namespace's own where they
// cannot, so who makes a plan asks before, and tells of it.
func TryCongestion(namespace, algorithm string) error {
	return withSocket(namespace, "tcp", func(s socket) error {
		defer s.close()
		return s.congest(algorithm)
	})
}
