package nlmsg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Querier queries the kernel repeatedly, over one socket and with its own buffers. The netlink library
// allocates 64 KB for each reply. It is for one goroutine.
type Querier struct {
	fd      int
	seq     uint32
	request []byte
	reply   Buffer
}

// answerTimeout is how long the kernel may take to answer. It does so at once, but for what it waits for itself
// while it is asked: this is for an answer that never comes.
const answerTimeout = 10 * time.Second

// OpenQuerier opens a querier of the calling thread's namespace for a protocol, such as NETLINK_ROUTE.
func OpenQuerier(protocol int) (*Querier, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	timeout := unix.NsecToTimeval(answerTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return NewQuerier(fd), nil
}

// NewQuerier makes a querier of a socket.
func NewQuerier(fd int) *Querier { return &Querier{fd: fd, reply: make(Buffer, usualDatagram)} }

// Close closes the socket.
func (q *Querier) Close() error { return unix.Close(q.fd) }

// Start begins a request, to which [Querier.Add] appends attributes.
func (q *Querier) Start(kind, flags uint16, header []byte) {
	q.seq++
	r := binary.NativeEndian.AppendUint32(q.request[:0], 0) // the length is filled in later
	r = binary.NativeEndian.AppendUint16(r, kind)
	r = binary.NativeEndian.AppendUint16(r, unix.NLM_F_REQUEST|flags)
	r = binary.NativeEndian.AppendUint32(r, q.seq)
	r = binary.NativeEndian.AppendUint32(r, 0)
	q.request = append(r, header...)
}

// Add appends an attribute to the request.
func (q *Querier) Add(kind uint16, value []byte) {
	q.request = binary.NativeEndian.AppendUint16(q.request, unix.SizeofRtAttr+uint16(len(value)))
	q.request = binary.NativeEndian.AppendUint16(q.request, kind)
	q.request = append(q.request, value...)
	for len(q.request)%unix.RTA_ALIGNTO != 0 {
		q.request = append(q.request, 0)
	}
}

// AddUint32 appends an attribute that is a number.
func (q *Querier) AddUint32(kind uint16, value uint32) {
	var room [4]byte
	binary.NativeEndian.PutUint32(room[:], value)
	q.Add(kind, room[:])
}

// RoundTrip sends the request and returns the attributes of the reply, without its header of a size. They
// are valid until the next request.
func (q *Querier) RoundTrip(header int) (attrs []byte, err error) {
	err = q.exchange(func(m Message) (done bool, err error) {
		if len(m.Body) < header {
			return true, fmt.Errorf("a reply of %d bytes", len(m.Body))
		}
		attrs = m.Body[header:]
		return true, nil
	})
	return attrs, err
}

// Dump sends a request for all objects of a kind, and calls do with each of them, as long as that wants more: after a
// list that was broken off, the querier can only be closed. If the list is not whole, it returns an error after
// the objects: [ErrInterrupted], or what the kernel ends the list with. Not for every table does the kernel notice
// what changes meanwhile: that may be missing.
func (q *Querier) Dump(kind uint16, request []byte, do func(body []byte) (more bool)) error {
	interrupted := false
	q.Start(kind, unix.NLM_F_DUMP, request)
	err := q.exchange(func(m Message) (done bool, err error) {
		interrupted = interrupted || m.Flags&unix.NLM_F_DUMP_INTR != 0
		if m.Kind == unix.NLMSG_DONE {
			return true, resultOf(m)
		}
		return !do(m.Body), nil
	})
	if err == nil && interrupted {
		return ErrInterrupted
	}
	return err
}

// resultOf is the error in a message that ends a request; nil: there is none.
func resultOf(m Message) error {
	if errno := unix.Errno(-int32(NativeUint32(m.Body))); errno != 0 {
		return errno
	}
	return nil
}

// exchange sends the request and hands over its replies until one is the last.
func (q *Querier) exchange(reply func(m Message) (done bool, err error)) error {
	binary.NativeEndian.PutUint32(q.request, uint32(len(q.request)))
	if err := unix.Sendto(q.fd, q.request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("ask the kernel: %w", err)
	}
	for {
		n, err := 0, q.reply.Fit(q.fd, 0)
		if err == nil {
			n, _, err = unix.Recvfrom(q.fd, q.reply, 0)
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			err = fmt.Errorf("no answer in %v: %w", answerTimeout, err)
		}
		if err != nil {
			return fmt.Errorf("ask the kernel: %w", err)
		}
		for m := range EachMessage(q.reply[:n]) {
			done := false
			switch {
			case m.Sequence != q.seq: // a reply to an earlier request
			case m.Kind != unix.NLMSG_ERROR:
				done, err = reply(m)
			case len(m.Body) < 4:
				err = fmt.Errorf("a reply of %d bytes", len(m.Body))
			default:
				done, err = true, resultOf(m)
			}
			if err != nil {
				return fmt.Errorf("ask the kernel: %w", err)
			}
			if done {
				return nil
			}
		}
	}
}
