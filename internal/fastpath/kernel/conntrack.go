package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/venturi-net/venturi/internal/netcfg"
	"golang.org/x/sys/unix"
)

// Conntrack writes the connection tracking of a namespace. It is for one goroutine.
type Conntrack struct {
	n        *netcfg.Namespace
	fd       int
	sequence uint32
	out, in  []byte
}

// Connection names what is tracked, IPv4, from either of its ends.
type Connection struct {
	Protocol uint8
	A, B     netip.AddrPort
}

// Update is what conntrack is to do for a connection of TCP or UDP. Without more,
// it says how that is.
type Update struct {
	Of Connection
	// Liberal lets a TCP connection's windows go unwatched, and takes for acknowledged
	// what was sent: the packets that say so may be some that conntrack does not see,
	// and until then it gives the connection minutes where that had days.
	Liberal bool
	// Alive is how long it lives if it is silent from now on, in whole seconds; 0: as
	// it is. Of UDP, it also makes it one that is not given up for others.
	Alive time.Duration
	// Unreplied leaves it one of UDP that nobody has replied to.
	Unreplied bool
}

// Tracked is how a connection was when it was updated.
type Tracked uint8

// How it can be.
const (
	NotTold        Tracked = iota // what became of it is not known; of one with a fixed end, it is not put off
	NotTracked                    // conntrack has no such connection
	TrackedMute                   // conntrack has it, and will tell nobody when it forgets it
	TrackedClosing                // TCP that is not established, or not any more
	TrackedOpen                   // conntrack has it; of UDP, it may wait for a reply
)

// atOnce is how many requests are sent at once: their answers have room.
const (
	atOnce     = 256
	answerRoom = 4 << 20 // bytes of the kernel's memory
)

// OpenConntrack opens a namespace's connection tracking.
func OpenConntrack(n *netcfg.Namespace) (*Conntrack, error) {
	fd, err := netfilter(n, answerRoom)
	if err != nil {
		return nil, n.Wrap("open connection tracking", err)
	}
	return &Conntrack{n: n, fd: fd, in: make([]byte, os.Getpagesize())}, nil
}

// Close closes it.
func (c *Conntrack) Close() error { return unix.Close(c.fd) }

// Update updates connections, and says how each of them was afterwards, by its
// place in the list.
//
// The kernel echoes an update only of connections of which it tells events: those
// that began when somebody listened, unless net.netfilter.nf_conntrack_events is 1.
func (c *Conntrack) Update(all []Update, tell func(i int, is Tracked)) error {
	for at := 0; at < len(all); at += atOnce {
		some := all[at:min(at+atOnce, len(all))]
		if err := c.update(some, func(i int, is Tracked) { tell(at+i, is) }); err != nil {
			return c.n.Wrap("update connections", err)
		}
	}
	return nil
}

// update updates no more than go at once.
func (c *Conntrack) update(some []Update, tell func(i int, is Tracked)) error {
	is := TrackedMute
	return c.ask(len(some), func(b []byte, i int, sequence uint32) []byte { return some[i].append(b, sequence) },
		func(m message) { is = m.tracked() },
		func(i int, result unix.Errno) {
			switch result {
			case 0:
			case unix.ENOENT:
				is = NotTracked
			default:
				is = NotTold
			}
			if i >= 0 {
				tell(i, is)
			}
			is = TrackedMute
		})
}

// ask sends requests in one call, in which the kernel does all of them, and then reads
// what it said: of each the connection, if that is echoed, and then its result. Those of
// a list before have number -1.
func (c *Conntrack) ask(requests int, request func(b []byte, i int, sequence uint32) []byte, echo func(message), result func(i int, is unix.Errno)) error {
	first := c.sequence + 1
	c.sequence += uint32(requests)
	c.out = c.out[:0]
	for i := range requests {
		c.out = request(c.out, i, first+uint32(i))
	}
	if err := unix.Sendto(c.fd, c.out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	answers := 0
	for answers < requests {
		n, err := unix.Read(c.fd, c.in)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS):
			continue // some answers are lost: those connections are told nothing of
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil:
			return fmt.Errorf("receive: %w", err)
		}
		eachMessage(c.in[:n], func(m message) {
			switch {
			case m.kind == trackMessage(trackNew):
				echo(m)
			case m.kind == unix.NLMSG_ERROR && len(m.body) >= 4:
				i := int(m.sequence - first)
				if uint32(i) >= uint32(requests) {
					i = -1
				} else {
					answers++
				}
				result(i, unix.Errno(-int32(binary.NativeEndian.Uint32(m.body))))
			}
		})
	}
	return nil
}

// netfilter opens a socket to the namespace's netfilter, with room for what comes,
// in bytes of the kernel's memory.
func netfilter(n *netcfg.Namespace, room int) (fd int, err error) {
	err = n.Do(func() error {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_NETFILTER)
		return err
	})
	if err != nil {
		return -1, err
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room),
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1),
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
	)
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}
