package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/thread"
	"github.com/venturi-net/venturi/result"
)

// RoundRobin goes round many flows of UDP, one datagram of each in its turn: the
// client has some sockets, the server others, and each pair of them is a flow. So
// there are far more of them than a [load.Plan] can have, where each has sockets of its
// own, and of two datagrams in a row no two are of one flow. It is for what depends
// on how many flows there are at a time.
type RoundRobin struct {
	clients, servers []socket
	to               []*unix.SockaddrInet4 // of far
	cpu              int                   // of the client's thread
	next             int                   // flow
	number           uint64
	clock            clock
	buf              []byte

	wait   sync.WaitGroup // the server's threads
	mu     sync.Mutex
	closed bool
	failed error // of the server, the first
}

// Trips is what became of requests.
type Trips struct {
	Requests, Lost int64
	Median         time.Duration // of round trips; 0: there was none
}

// A request says which of the client's sockets it came from; a datagram that is to
// have no reply is shorter.
const (
	numberAt    = 0
	clientAt    = 8
	requestSize = 10
	silentSize  = 1
)

// OpenRoundRobin opens near sockets at the client's end and far at the server's, with
// a thread for each of these; ports are the first of as many in a row.
func OpenRoundRobin(ends load.Pair, near, far, clientPort, serverPort, clientCPU, serverCPU int) (r *RoundRobin, err error) {
	reserveProcessors(far)
	r = &RoundRobin{cpu: clientCPU, clock: newClock(), buf: make([]byte, 2*requestSize)}
	open := func(namespace string, addr netip.Addr, first, count int) (all []socket, at []*unix.SockaddrInet4, err error) {
		for i := range count {
			here := netip.AddrPortFrom(addr, uint16(first+i))
			s, err := listenIn(namespace, "udp", "", here, 0)
			if err != nil {
				return all, nil, err
			}
			all, at = append(all, s), append(at, sockaddr(here))
		}
		return all, at, nil
	}
	var from []*unix.SockaddrInet4
	if r.clients, from, err = open(ends.From.Namespace, ends.From.Addr, clientPort, near); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if r.servers, r.to, err = open(ends.To.Namespace, ends.To.Addr, serverPort, far); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for _, s := range r.clients {
		if err := s.setTimeout(unix.SO_RCVTIMEO, hotTimeout); err != nil {
			return nil, errors.Join(fmt.Errorf("set receive timeout: %w", err), r.Close())
		}
	}
	for _, s := range r.servers {
		back := make([]*unix.SockaddrInet4, len(from)) // a thread's own: sending writes into it
		for i, at := range from {
			mine := *at
			back[i] = &mine
		}
		r.wait.Go(func() { r.recordError(r.echo(s, back, serverCPU)) })
	}
	return r, nil
}

// Flows is how many there are.
func (r *RoundRobin) Flows() int { return len(r.clients) * len(r.servers) }

// Close ends the traffic, and gives the first error that the server met.
func (r *RoundRobin) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for _, s := range r.servers {
		s.shutdown()
	}
	r.wait.Wait()
	for _, s := range append(r.clients, r.servers...) {
		s.close()
	}
	return r.failed
}

func (r *RoundRobin) recordError(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && !r.closed && r.failed == nil {
		r.failed = err
	}
}

// echo answers what comes to one of the server's sockets, until it is shut down.
func (r *RoundRobin) echo(s socket, back []*unix.SockaddrInet4, cpu int) error {
	if err := thread.Pin(cpu); err != nil {
		return err
	}
	buf := make([]byte, 2*requestSize)
	for {
		n, err := s.recv(buf)
		if err != nil || n == 0 {
			return err
		}
		from := int(binary.LittleEndian.Uint16(buf[clientAt:]))
		if n != requestSize || from >= len(back) {
			continue
		}
		switch err := s.sendTo(buf[:n], back[from]); {
		case errors.Is(err, unix.EPIPE):
			return nil // shut down, and what had come before was still given
		case err != nil && !lossy(err):
			return fmt.Errorf("send reply: %w", err)
		}
	}
}

// Tour makes so many requests in a row on each of some flows, one flow after the other.
// What comes next begins with the first of all.
func (r *RoundRobin) Tour(first, flows, times int) (Trips, error) {
	r.next = first
	left := times * flows
	trips, err := r.trips(times, func() bool { left--; return left >= 0 })
	r.next = 0
	return trips, err
}

// Ping makes one request on each flow in its turn, for d. The next one goes on where it ends.
func (r *RoundRobin) Ping(d time.Duration) (Trips, error) {
	end := r.clock.now() + d.Nanoseconds()
	return r.trips(1, func() bool { return r.clock.now() < end })
}

// Send sends a datagram without a reply on each flow in its turn, for d, as fast as
// it goes.
func (r *RoundRobin) Send(d time.Duration) error {
	return r.do(func() error {
		for end := r.clock.now() + d.Nanoseconds(); r.clock.now() < end; r.turn() {
			from, to := r.pair()
			if err := r.clients[from].sendTo(r.buf[:silentSize], r.to[to]); err != nil && !lossy(err) {
				return fmt.Errorf("send: %w", err)
			}
		}
		return nil
	})
}

// pair gives the sockets of the flow whose turn it is.
func (r *RoundRobin) pair() (near, far int) { return r.next % len(r.clients), r.next / len(r.clients) }

func (r *RoundRobin) turn() { r.next = (r.next + 1) % r.Flows() }

// do does something on a thread of its own, where the client belongs.
func (r *RoundRobin) do(what func() error) error {
	done := make(chan error)
	go func() {
		err := thread.Pin(r.cpu)
		if err == nil {
			err = what()
		}
		done <- err
	}()
	return <-done
}

// trips makes requests while there are to be more, so many on a flow in a row.
func (r *RoundRobin) trips(times int, more func() bool) (t Trips, err error) {
	rtt := result.NewRTT()
	err = r.do(func() error {
		for more() {
			at := r.clock.now()
			t.Requests++
			got, err := r.trip()
			if err != nil {
				return err
			}
			if got {
				_ = rtt.RecordValue(r.clock.now() - at)
			} else {
				t.Lost++
			}
			if t.Requests%int64(times) == 0 {
				r.turn()
			}
		}
		return nil
	})
	t.Median = time.Duration(rtt.ValueAtQuantile(50))
	return t, err
}

// trip makes one request on the flow whose turn it is; false: it is lost.
func (r *RoundRobin) trip() (bool, error) {
	near, far := r.pair()
	request := r.buf[:requestSize]
	r.number++
	binary.LittleEndian.PutUint64(request[numberAt:], r.number)
	binary.LittleEndian.PutUint16(request[clientAt:], uint16(near))
	if err := r.clients[near].sendTo(request, r.to[far]); err != nil && !lossy(err) {
		return false, fmt.Errorf("send request: %w", err)
	}
	for {
		n, err := r.clients[near].recv(r.buf)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("receive reply: %w", err)
		case n == requestSize && binary.LittleEndian.Uint64(r.buf[numberAt:]) == r.number:
			return true, nil
		}
		// A reply to one before, that came too late.
	}
}

// sendTo sends a datagram from a socket that is connected to nobody.
func (s socket) sendTo(b []byte, to *unix.SockaddrInet4) error {
	for {
		err := unix.Sendto(s.fd, b, unix.MSG_NOSIGNAL, to)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
