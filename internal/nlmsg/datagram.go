package nlmsg

import (
	"cmp"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// usualDatagram is the room to begin with, bytes: the kernel gives no more of a list at a time.
	usualDatagram = 1 << 15
	// maxDatagram is the size of the largest datagram that is read, bytes. Of the kernel's messages, one about a
	// device with many alternative names is the largest: these take 64 KiB at most.
	maxDatagram = 1 << 20
)

// Buffer is room for datagrams, which grows as they need it: the kernel cuts off what does not fit, and says so
// to nobody who does not ask.
type Buffer []byte

// Fit waits for the next datagram, unless the flags say otherwise, and makes room for it. One that is too large is
// discarded: then the error is EMSGSIZE.
func (b *Buffer) Fit(fd, flags int) error {
	n, _, err := unix.Recvfrom(fd, nil, flags|unix.MSG_PEEK|unix.MSG_TRUNC)
	if err != nil {
		return err
	}
	if n > maxDatagram {
		_, _, err := unix.Recvfrom(fd, nil, flags)
		return cmp.Or(err, fmt.Errorf("a message of %d bytes: %w", n, error(unix.EMSGSIZE)))
	}
	if n > len(*b) {
		*b = make(Buffer, max(n, usualDatagram))
	}
	return nil
}
