package pods

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load/thread"
	"github.com/venturi-net/venturi/result"
)

const (
	pingSize   = 8       // bytes of a request, which is its number
	streamSize = 1 << 16 // bytes of a message of a stream
)

// Bounds of waits: for the answer to a datagram, and for whatever TCP delivers or a stream has sent.
var (
	answerTimeout = host.ScaleTimeout(50 * time.Millisecond)
	ioTimeout     = host.ScaleTimeout(5 * time.Second)
)

// errGone is the end of a stream, which a flow that still sends does not expect.
var errGone = errors.New("the other end closed the connection")

// flow is one flow with a thread at either end, which block in the kernel.
type flow struct {
	tcp, stream      bool
	client, listener int // sockets; the listener is the server's own, where it is UDP
	cpu              int // of the client
	number           uint64
	received         atomic.Int64 // bytes of a stream
	wait             sync.WaitGroup
	mu               sync.Mutex
	accepted         int   // 0: none yet
	failed           error // of the server
	closed           bool
}

// openFlow opens a flow of a load on an arm.
func openFlow(a Arm, l Load, clientCPU, serverCPU int) (f *flow, err error) {
	f = &flow{tcp: l != UDPLatency, stream: l == TCPStream, client: -1, listener: -1, cpu: clientCPU}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open %s on %s: %w", l, a.Name, err), f.close())
		}
	}()
	at := netip.AddrPortFrom(a.To.Addr, a.Port)
	if f.listener, err = f.open(a.To.Namespace, at); err != nil {
		return f, err
	}
	if f.tcp {
		if err := unix.Listen(f.listener, 1); err != nil {
			return f, err
		}
	}
	f.wait.Go(func() { f.record(f.serve(serverCPU)) })
	if f.client, err = f.open(a.From.Namespace, netip.AddrPortFrom(a.From.Addr, 0)); err != nil {
		return f, err
	}
	timeout := answerTimeout
	if f.tcp {
		timeout = ioTimeout
	}
	for _, option := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		tv := unix.NsecToTimeval(timeout.Nanoseconds())
		if err := unix.SetsockoptTimeval(f.client, unix.SOL_SOCKET, option, &tv); err != nil {
			return f, err
		}
	}
	to := at
	if a.Via.IsValid() {
		to = a.Via
	}
	return f, f.do(func() error { return unix.Connect(f.client, sockaddr(to)) })
}

// open opens a bound socket in a namespace.
func (f *flow) open(namespace string, at netip.AddrPort) (fd int, err error) {
	fd = -1
	err = host.Do(namespace, func() error {
		family, kind := unix.AF_INET, unix.SOCK_DGRAM
		if at.Addr().Is6() {
			family = unix.AF_INET6
		}
		if f.tcp {
			kind = unix.SOCK_STREAM
		}
		if fd, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if f.tcp {
			err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
				unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
		}
		return errors.Join(err, unix.Bind(fd, sockaddr(at)))
	})
	if err != nil {
		return fd, fmt.Errorf("open a socket at %s: %w", at, err)
	}
	return fd, nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is6() {
		return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	}
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}

// serve answers, or takes a stream, until the flow is closed.
func (f *flow) serve(cpu int) error {
	if err := thread.Pin(cpu); err != nil {
		return err
	}
	buf := make([]byte, 4*streamSize)
	fd, err := f.accept(buf)
	for err == nil {
		var n int
		if n, err = unix.Read(fd, buf); err != nil {
			break
		}
		switch {
		case n == 0:
			return errGone
		case f.stream:
			f.received.Add(int64(n))
		default:
			_, err = unix.Write(fd, buf[:n])
		}
	}
	return err
}

// accept gives the server's socket, connected to the client: with UDP, to whoever sends first.
func (f *flow) accept(buf []byte) (fd int, err error) {
	if !f.tcp {
		n, from, err := unix.Recvfrom(f.listener, buf, 0)
		if err != nil || from == nil {
			return 0, errors.Join(err, errGone)
		}
		if err := unix.Connect(f.listener, from); err != nil {
			return 0, err
		}
		_, err = unix.Write(f.listener, buf[:n])
		return f.listener, err
	}
	if fd, _, err = unix.Accept4(f.listener, unix.SOCK_CLOEXEC); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accepted = fd
	if f.closed {
		return 0, errGone
	}
	return fd, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

func (f *flow) record(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.failed = err
	}
}

// serverError is why the server has ended; nil: it has not.
func (f *flow) serverError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// close ends the flow, and gives the error of its server.
func (f *flow) close() error {
	f.mu.Lock()
	f.closed = true
	for _, fd := range []int{f.listener, f.accepted} {
		if fd > 0 {
			_ = unix.Shutdown(fd, unix.SHUT_RDWR)
		}
	}
	f.mu.Unlock()
	f.wait.Wait()
	for _, fd := range []int{f.client, f.listener, f.accepted} {
		if fd > 0 {
			_ = unix.Close(fd)
		}
	}
	return f.failed
}

// do does something on a thread of its own, where the client belongs.
func (f *flow) do(what func() error) error {
	done := make(chan error)
	go func() {
		err := thread.Pin(f.cpu)
		if err == nil {
			err = what()
		}
		done <- err
	}()
	return <-done
}

// slice is what a flow did for a while.
type slice struct {
	value          float64 // nanoseconds of a round trip, or bytes a second
	requests, lost int64
}

// run sends for d.
func (f *flow) run(d time.Duration) (s slice, err error) {
	err = f.do(func() error {
		if f.stream {
			s, err = f.sendStream(d)
		} else {
			s, err = f.ping(d)
		}
		return err
	})
	return s, errors.Join(err, f.serverError())
}

func (f *flow) ping(d time.Duration) (s slice, err error) {
	rtt := result.NewRTT()
	for start := time.Now(); time.Since(start) < d; {
		s.requests++
		at := time.Now()
		got, err := f.exchange()
		switch {
		case err != nil:
			return s, err
		case got:
			_ = rtt.RecordValue(time.Since(at).Nanoseconds())
		default:
			s.lost++
		}
	}
	s.value = float64(rtt.ValueAtQuantile(50))
	return s, nil
}

// exchange sends a request, and waits for its answer; false: it is lost.
func (f *flow) exchange() (bool, error) {
	var request, answer [pingSize]byte
	f.number++
	binary.LittleEndian.PutUint64(request[:], f.number)
	if _, err := unix.Write(f.client, request[:]); err != nil {
		return false, fmt.Errorf("send request: %w", err)
	}
	for got := 0; ; {
		n, err := unix.Read(f.client, answer[got:])
		switch {
		case errors.Is(err, unix.EAGAIN) && !f.tcp:
			return false, nil
		case err != nil:
			return false, fmt.Errorf("receive answer: %w", err)
		case n == 0:
			return false, errGone
		}
		if got += n; got < pingSize {
			continue
		}
		if binary.LittleEndian.Uint64(answer[:]) == f.number {
			return true, nil
		}
		got = 0 // one before, that came too late
	}
}

// sendStream sends for d, and waits until all of it has arrived.
func (f *flow) sendStream(d time.Duration) (s slice, err error) {
	message := make([]byte, streamSize)
	start, before, sent := time.Now(), f.received.Load(), int64(0)
	for time.Since(start) < d {
		n, err := unix.Write(f.client, message)
		if err != nil {
			return s, fmt.Errorf("send: %w", err)
		}
		sent += int64(n)
	}
	for f.received.Load()-before < sent {
		if time.Since(start) > d+ioTimeout {
			return s, fmt.Errorf("%d of %d bytes have arrived after %v", f.received.Load()-before, sent, time.Since(start))
		}
		time.Sleep(20 * time.Microsecond)
	}
	s.value = float64(sent) / time.Since(start).Seconds()
	return s, nil
}
