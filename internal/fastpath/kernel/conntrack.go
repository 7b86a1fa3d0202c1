package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"golang.org/x/sys/unix"
)

// Conntrack updates the connection tracking of a network namespace. It is for one goroutine.
type Conntrack struct {
	n        *netcfg.Namespace
	fd       int
	sequence uint32
	out, in  []byte
}

// Connection is the tuple of a connection, from either end.
type Connection struct {
	Protocol uint8
	A, B     netip.AddrPort
}

// Update changes the conntrack entry of a TCP or UDP connection. With no other field set, it
// only reads the state.
type Update struct {
	Conn Connection
	// Liberal switches off TCP window checks, and marks everything as acknowledged.
	// Conntrack may not see the acknowledgements, and until it does it uses a timeout of
	// minutes where that of the established connection is days.
	Liberal bool
	// Timeout is the time until the entry expires, in whole seconds; 0: unchanged. For UDP
	// it also sets the assured bit, which protects the entry from early drop.
	Timeout time.Duration
	// Unreplied leaves a UDP connection without a reply as it is.
	Unreplied bool
	state     TCPState // of a TCP connection; 0: unchanged
}

// ConnState is the state of a connection at its update.
type ConnState uint8

// States of a connection.
const (
	ConnUnknown     ConnState = iota // the answer was lost, or the entry has a fixed timeout and was left alone
	ConnMissing                      // there is no entry
	ConnNoEvents                     // the kernel will not announce its end
	ConnClosing                      // TCP, and not established
	ConnEstablished                  // UDP may still lack a reply
)

const (
	batchSize   = 256     // requests in one call; the answers fit in the buffer
	replyBuffer = 4 << 20 // of the socket, bytes
)

// OpenConntrack opens the connection tracking of a network namespace.
func OpenConntrack(n *netcfg.Namespace) (*Conntrack, error) {
	fd, err := netfilterSocket(n, replyBuffer)
	if err != nil {
		return nil, n.Wrap("open connection tracking", err)
	}
	return &Conntrack{n: n, fd: fd, in: make([]byte, os.Getpagesize())}, nil
}

// Close closes the socket.
func (c *Conntrack) Close() error { return unix.Close(c.fd) }

// Update updates connections, and reports the state of each by its index.
//
// The kernel echoes an update only if it sends events of the connection: if there was a
// listener when it was created, or net.netfilter.nf_conntrack_events is 1.
func (c *Conntrack) Update(all []Update, tell func(i int, is ConnState)) error {
	for at := 0; at < len(all); at += batchSize {
		some := all[at:min(at+batchSize, len(all))]
		if err := c.update(some, func(i int, is ConnState) { tell(at+i, is) }); err != nil {
			return c.n.Wrap("update connections", err)
		}
	}
	return nil
}

// update updates one batch.
func (c *Conntrack) update(some []Update, tell func(i int, is ConnState)) error {
	is := ConnNoEvents
	return c.roundTrip(len(some), func(b []byte, i int, sequence uint32) []byte { return some[i].append(b, sequence) },
		func(m message) { is = m.state() },
		func(i int, result unix.Errno) {
			switch result {
			case 0:
			case unix.ENOENT:
				is = ConnMissing
			default:
				is = ConnUnknown
			}
			if i >= 0 {
				tell(i, is)
			}
			is = ConnNoEvents
		})
}

// closedEarlier is how much sooner a connection that was closed expires than one that was reset: its
// next packet gives it all that time. The kernel tells it in whole seconds, rounded down.
const closedEarlier = 2 * time.Second

// CloseReset closes those of the TCP connections that are established, and expire within a time: that
// is how conntrack leaves a connection after a reset whose sequence number is not the one that it
// expects, until it sees another packet of it. Which time that is depends on the kernel. It returns those
// that it has closed: one that expires later than that was used since. A time of 2 s or less closes
// nothing: all is over soon.
func (c *Conntrack) CloseReset(all []Connection, within time.Duration) (closed []Connection, unused time.Time, err error) {
	alive := within - closedEarlier
	if alive <= 0 {
		return nil, unused, nil
	}
	closed, err = c.setAll(all, func(_ int, m message) (Update, bool) {
		return Update{state: TCPClose, Timeout: alive}, m.tcpState() == TCPEstablished && m.timeout() <= within
	})
	return closed, time.Now().Add(alive + closedEarlier/4), c.n.Wrap("close connections that were reset", err)
}

// usedEarlier is how much sooner a connection expires than it would if it were unused, where its packets
// give it less time than it had: more than passes until it is looked at, on a busy machine.
const usedEarlier = 20 * time.Second

// Reopen establishes those of the TCP connections again that are closed, and expire later than they
// would if they were unused, or much sooner: conntrack has seen packets of them since they were closed.
// They get a timeout, in whole seconds. It returns those that it has established.
func (c *Conntrack) Reopen(closed map[Connection]time.Time, alive time.Duration) (open []Connection, err error) {
	all, now := slices.Collect(maps.Keys(closed)), time.Now()
	open, err = c.setAll(all, func(i int, m message) (Update, bool) {
		left, unused := m.timeout(), max(closed[all[i]].Sub(now), 0)
		return Update{state: TCPEstablished, Timeout: alive}, m.tcpState() == TCPClose && (left > unused || left+usedEarlier < unused)
	})
	return open, c.n.Wrap("establish connections that were not reset", err)
}

// setAll makes updates of those of the TCP connections that are to have one, and returns them. The update
// may leave out the connection.
func (c *Conntrack) setAll(all []Connection, choose func(i int, m message) (to Update, want bool)) (set []Connection, err error) {
	for at := 0; at < len(all); at += batchSize {
		some := all[at:min(at+batchSize, len(all))]
		var updates []Update
		var is message
		err := c.roundTrip(len(some), func(b []byte, i int, sequence uint32) []byte { return Update{Conn: some[i]}.append(b, sequence) },
			func(m message) { is = message{nlmsg.Message{Body: slices.Clone(m.Body)}} },
			func(i int, result unix.Errno) {
				if i >= 0 && result == 0 && is.Body != nil {
					if to, want := choose(at+i, is); want {
						to.Conn = some[i]
						updates, set = append(updates, to), append(set, some[i])
					}
				}
				is = message{}
			})
		if err == nil && len(updates) > 0 {
			err = c.update(updates, func(int, ConnState) {})
		}
		if err != nil {
			return set, err
		}
	}
	return set, nil
}

// roundTrip sends requests in one call, in which the kernel serves them all, and then reads
// the answers: for each request an echo of the connection, if there is one, and then the
// result. Answers to earlier requests have index -1.
func (c *Conntrack) roundTrip(requests int, request func(b []byte, i int, sequence uint32) []byte, echo func(message), result func(i int, is unix.Errno)) error {
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
			continue // some answers are lost: the state of those connections is unknown
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil:
			return fmt.Errorf("receive: %w", err)
		}
		for m := range nlmsg.EachMessage(c.in[:n]) {
			switch {
			case m.Kind == ctMessageType(ctNew):
				echo(message{m})
			case m.Kind == unix.NLMSG_ERROR && len(m.Body) >= 4:
				i := int(m.Sequence - first)
				if uint32(i) >= uint32(requests) {
					i = -1
				} else {
					answers++
				}
				result(i, unix.Errno(-int32(binary.NativeEndian.Uint32(m.Body))))
			}
		}
	}
	return nil
}

// netfilterSocket opens a netlink socket to the namespace's netfilter, with a receive buffer
// of a size in bytes.
func netfilterSocket(n *netcfg.Namespace, room int) (fd int, err error) {
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
		bindOwn(fd),
	)
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}
