package engine

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"

	"github.com/venturi-net/venturi/internal/load"
)

// ioTimeout is how long either end waits for the other before it gives an arm
// up. It is far above any delay of a path that works.
const ioTimeout = 5 * time.Second

var errPeerGone = errors.New("the other end closed the connection")

// socket is a blocking socket that the Go netpoller does not know: a thread
// that is locked and pinned blocks in the kernel, as the thread of a C tool
// does. Through net.Conn a ping-pong would read about 30 % longer.
//
// While a slice runs a socket is hot: its calls are not told to the Go
// scheduler, which costs some 50 ns each way. That is 3 % of a small datagram,
// and more where it decides who of sender and receiver waits for whom. A hot
// thread holds a processor of the scheduler even while it blocks (see reserve),
// and holds up whoever wants to stop the world; so a receive blocks for
// hotTimeout or the timeout of a request, and agents do not collect garbage
// during a series.
//
// The scheduler asks for a processor by a signal, which ends the call: every 10 ms,
// and every 0.1 ms to stop the world. The call is then made again as one that it is told of. Else it
// would ask for ever, and the wait would never end: each call begins its timeout anew.
type socket struct {
	fd  int
	hot bool
}

// heats tells whether the sockets of a load are hot in a slice. Those of a TCP
// stream wait often and have few calls: the timer of each wait costs them 6 % of
// their rate, and there is nothing to gain.
func heats(l load.Load) bool { return l.Kind.Timed() || l.Transport == "udp" }

// hotTimeout is far above any gap in the traffic of a path that works.
const hotTimeout = 50 * time.Millisecond

// coolProcessors is for how many flows of a load that is never hot the
// scheduler has processors.
const coolProcessors = 32

// reserve makes sure that the scheduler has a processor for each hot thread of
// both ends, which have so many each, and some for everything else. Threads of a
// load that is never hot give theirs back while they wait: a few for them are
// enough, and the scheduler gets slow with thousands.
func reserve(l load.Load, threads int) {
	if !heats(l) {
		threads = min(threads, coolProcessors)
	}
	reserveProcessors(threads)
}

// reserveProcessors does so for as many threads of each end as may be hot at once.
func reserveProcessors(threads int) {
	if want := 2*threads + 4; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}

// heat makes the socket hot, with a receive timeout, or ends that; a timeout of
// 0 is none.
func (s *socket) heat(on bool, timeout time.Duration) error {
	s.hot = on
	if err := s.setTimeout(unix.SO_RCVTIMEO, timeout); err != nil {
		return fmt.Errorf("set receive timeout: %w", err)
	}
	return nil
}

// cool ends the heat of a passive end that waited in vain: nothing came for
// long, so the slice is over, its end seen or not. Any other error it gives back.
func (s *socket) cool(err error) error {
	if !s.hot || !errors.Is(err, unix.EAGAIN) {
		return err
	}
	return s.heat(false, 0)
}

// listenIn opens a bound socket in the namespace of an end; a TCP one listens, and
// lets so many connections wait to be accepted.
func listenIn(namespace, transport, congestion string, at netip.AddrPort, backlog int) (s socket, err error) {
	err = openIn(namespace, transport, congestion, at, func(opened socket) error {
		s = opened
		if transport != "tcp" {
			return nil
		}
		return unix.Listen(s.fd, backlog)
	})
	return s, err
}

// dialIn opens a socket in the namespace of an end and connects it.
func dialIn(namespace, transport, congestion string, from, to netip.AddrPort) (s socket, err error) {
	err = openIn(namespace, transport, congestion, from, func(opened socket) error {
		s = opened
		// A connect that gets no answer would wait for minutes.
		if err := s.setTimeout(unix.SO_SNDTIMEO, ioTimeout); err != nil {
			return err
		}
		if err := s.connect(to); err != nil {
			if errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EAGAIN) {
				err = unix.ETIMEDOUT
			}
			return fmt.Errorf("connect %s to %s: %w", transport, to, err)
		}
		return nil
	})
	return s, err
}

// connect connects the socket. With a timeout a signal ends the call, and the
// scheduler sends some: then it waits for the same connection. To call connect
// again would do that too, but say EALREADY when the time is over.
func (s socket) connect(to netip.AddrPort) error {
	err := unix.Connect(s.fd, sockaddr(to))
	if !errors.Is(err, unix.EINTR) {
		return err
	}
	return s.connected(ioTimeout)
}

// connected waits until a connection that was begun is there, or has failed.
func (s socket) connected(limit time.Duration) error {
	for end := time.Now().Add(limit); ; {
		left := time.Until(end)
		if left <= 0 {
			return unix.ETIMEDOUT
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLOUT}}, int(left.Milliseconds())+1)
		if errors.Is(err, unix.EINTR) || err == nil && n == 0 {
			continue
		}
		if err != nil {
			return err
		}
		failed, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && failed != 0 {
			err = syscall.Errno(failed)
		}
		return err
	}
}

// openIn makes a socket bound to at, hands it to use, and closes it if use fails.
func openIn(namespace, transport, congestion string, at netip.AddrPort, use func(socket) error) error {
	return withSocket(namespace, transport, func(s socket) error {
		if transport == "tcp" {
			_ = s.congest(congestion) // see TryCongestion
		}
		err := s.prepare(transport, at)
		if err == nil {
			err = use(s)
		}
		if err != nil {
			s.close()
		}
		return err
	})
}

// withSocket makes a socket in a namespace. It is use's to close.
func withSocket(namespace, transport string, use func(socket) error) error {
	return host.Do(namespace, func() error {
		kind := unix.SOCK_DGRAM // of icmp too: for its control frames
		if transport == "tcp" {
			kind = unix.SOCK_STREAM
		}
		fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s socket: %w", transport, err)
		}
		return use(socket{fd: fd})
	})
}

func (s socket) prepare(transport string, at netip.AddrPort) error {
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("set SO_REUSEADDR: %w", err)
	}
	if err := unix.Bind(s.fd, sockaddr(at)); err != nil {
		return fmt.Errorf("bind %s socket to %s: %w", transport, at, err)
	}
	return nil
}

func sockaddr(a netip.AddrPort) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}

// accept takes the next connection of a listener.
func (s socket) accept() (socket, error) {
	var from unix.RawSockaddrInet4
	return s.acceptFrom(&from)
}

// acceptFrom tells besides who made it.
func (s socket) acceptFrom(from *unix.RawSockaddrInet4) (socket, error) {
	for hot := s.hot; ; hot = false {
		var fd uintptr
		var errno syscall.Errno
		size := uint32(unix.SizeofSockaddrInet4)
		if hot {
			fd, _, errno = syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(s.fd), uintptr(unsafe.Pointer(from)), uintptr(unsafe.Pointer(&size)), unix.SOCK_CLOEXEC, 0, 0)
		} else {
			fd, _, errno = syscall.Syscall6(unix.SYS_ACCEPT4, uintptr(s.fd), uintptr(unsafe.Pointer(from)), uintptr(unsafe.Pointer(&size)), unix.SOCK_CLOEXEC, 0, 0)
		}
		if errno == 0 {
			return socket{fd: int(fd), hot: s.hot}, nil
		}
		if errno != unix.EINTR {
			return socket{}, errno
		}
	}
}

// setLowWater makes a wait for the socket end at so many bytes, not before.
func (s socket) setLowWater(bytes int) error {
	return unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, bytes)
}

func (s socket) noDelay() error { return s.nagle(false) }

// nagle switches Nagle's rule, by which a segment that is not full waits while
// another is unacknowledged. Switching it off sends what waits.
func (s socket) nagle(on bool) error {
	off := 1
	if on {
		off = 0
	}
	if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, off); err != nil {
		return fmt.Errorf("set TCP_NODELAY: %w", err)
	}
	return nil
}

// setTimeout sets SO_RCVTIMEO or SO_SNDTIMEO; the call then fails with EAGAIN.
func (s socket) setTimeout(option int, d time.Duration) error {
	tv := unix.NsecToTimeval(d.Nanoseconds())
	return unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, option, &tv)
}

// recv is one receive call.
func (s socket) recv(b []byte) (int, error) {
	return s.call(unix.SYS_RECVFROM, unsafe.Pointer(unsafe.SliceData(b)), len(b), 0)
}

// send is one send call.
func (s socket) send(b []byte) (int, error) {
	return s.call(unix.SYS_SENDTO, unsafe.Pointer(unsafe.SliceData(b)), len(b), unix.MSG_NOSIGNAL)
}

// call makes a system call of the form (fd, pointer, length, flags, 0, 0).
func (s socket) call(trap uintptr, p unsafe.Pointer, n int, flags uintptr) (int, error) {
	for hot := s.hot; ; hot = false { // a signal came: see socket
		var got uintptr
		var errno syscall.Errno
		if hot {
			got, _, errno = syscall.RawSyscall6(trap, uintptr(s.fd), uintptr(p), uintptr(n), flags, 0, 0)
		} else {
			got, _, errno = syscall.Syscall6(trap, uintptr(s.fd), uintptr(p), uintptr(n), flags, 0, 0)
		}
		if errno == 0 {
			return int(got), nil
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}

// sendAll sends b, in more than one call if the kernel takes less at a time.
func (s socket) sendAll(b []byte) error {
	for {
		n, err := s.send(b)
		if err != nil {
			return err
		}
		if n == len(b) {
			return nil
		}
		b = b[n:]
	}
}

// mostTries is how often a hot receive may time out before the other end is given up.
const mostTries = int(ioTimeout / hotTimeout)

// recvMessage fills b[:size] from a TCP connection, or b[:frameSize] when what
// comes is a control frame, which only ever stands at a message boundary.
func (s socket) recvMessage(b []byte, size int) (n int, err error) {
	tries := 0
	for want := size; n < want; {
		got, err := s.recv(b[n:want])
		if n > 0 && errors.Is(err, unix.EAGAIN) && tries < mostTries {
			tries++ // the rest is on its way, or on its way again
			continue
		}
		if err != nil {
			return n, err
		}
		if got == 0 {
			return n, errPeerGone
		}
		n += got
		if b[0] == frameMark {
			want = frameSize
		}
	}
	return n, nil
}

// recvAny takes the next message of either transport.
func (s socket) recvAny(tcp bool, b []byte, size int) (int, error) {
	if tcp {
		return s.recvMessage(b, size)
	}
	n, err := s.recv(b)
	if err == nil && n == 0 { // we never send an empty datagram: the socket was shut down
		err = errPeerGone
	}
	return n, err
}

// shutdown ends every blocked call on the socket, and every later one.
func (s socket) shutdown() { _ = unix.Shutdown(s.fd, unix.SHUT_RDWR) }

func (s socket) close() { _ = unix.Close(s.fd) }

// segments reads how many data segments a TCP socket has sent, and sent again.
func (s socket) segments() (sent, again int64) {
	info, err := unix.GetsockoptTCPInfo(s.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, 0
	}
	return int64(info.Data_segs_out), int64(info.Total_retrans)
}

// segmentSize is how many bytes of a TCP stream a packet carries; 0: not known.
func (s socket) segmentSize() int {
	n, err := unix.GetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	if err != nil {
		return 0
	}
	return n
}

const udpHeader = 8 // bytes

// fragments is in how many packets a datagram goes, by the MTU that the kernel knows.
func (s socket) fragments(size int) int {
	mtu, err := unix.GetsockoptInt(s.fd, unix.IPPROTO_IP, unix.IP_MTU)
	if err != nil || mtu <= ipHeader {
		return 1
	}
	payload := mtu - ipHeader
	return (udpHeader + size + payload - 1) / payload
}

// clock is the monotonic clock: time.Since of a time that has a monotonic
// reading makes one vDSO call where time.Now makes two.
type clock struct{ base time.Time }

func newClock() clock { return clock{time.Now()} }

func (c clock) now() int64 { return int64(time.Since(c.base)) }
