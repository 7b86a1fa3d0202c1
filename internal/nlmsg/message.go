package nlmsg

import (
	"encoding/binary"
	"iter"

	"golang.org/x/sys/unix"
)

// Message is a netlink message.
type Message struct {
	Kind     uint16
	Flags    uint16
	Sequence uint32
	Body     []byte
}

// EachMessage goes through the messages of a datagram, as far as they are whole.
func EachMessage(b []byte) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for len(b) >= unix.NLMSG_HDRLEN {
			n := int(binary.NativeEndian.Uint32(b))
			if n < unix.NLMSG_HDRLEN || n > len(b) {
				return
			}
			m := Message{binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint16(b[6:]), binary.NativeEndian.Uint32(b[8:]), b[unix.NLMSG_HDRLEN:n]}
			if !yield(m) {
				return
			}
			b = b[min((n+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1), len(b)):]
		}
	}
}
