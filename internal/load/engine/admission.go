package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
)

// Between real machines anybody may reach the ports of a run. A client begins each flow
// with a hello that holds the nonce of its series. Whoever does not is refused without an
// answer, and counted. A flow's thread starts when its client is there, so admission costs
// no slice anything.

const (
	// helloTimeout is how long a connection may take to say hello. A client says it at once, but
	// not if its machine is busy.
	helloTimeout = 2 * time.Second
	// maxPending is how many connections may take that time at once, over all ports; the
	// oldest makes room for a new one.
	maxPending = 128
	// listenBacklog is how many connections may wait to be accepted.
	listenBacklog = 128
)

// admission meets the clients of a server's ends, on one thread that sleeps while nobody
// knocks. It keeps the listeners to the end, and hangs up on whoever comes late.
type admission struct {
	server  *Server
	group   *epollGroup
	entries int           // that are waited for
	pending []pendingConn // in the order of their coming
	slots   []int         // free numbers of pending connections
}

// pendingConn has been accepted, and has not said hello.
type pendingConn struct {
	socket
	end      *passive
	slot     int
	deadline time.Time
	partial  bool // it has said the beginning of something
}

func newAdmission(s *Server) (*admission, error) {
	a := &admission{server: s}
	for slot := range maxPending {
		a.slots = append(a.slots, len(s.ends)+slot)
	}
	group, err := newEpollGroup(len(s.ends) + maxPending)
	if err != nil {
		return nil, err
	}
	a.group = group
	for i, end := range s.ends {
		if err := group.add(end.entry, i); err != nil {
			group.close()
			return nil, err
		}
		a.entries++
	}
	return a, nil
}

// run admits clients until the server closes, or no entry is left to be waited for.
func (a *admission) run() error {
	defer a.close()
	for a.entries+len(a.pending) > 0 {
		events, err := a.group.wait(a.untilRefusal())
		if err != nil {
			return err
		}
		for _, e := range events {
			if a.server.isClosed() {
				return nil
			}
			if err := a.handle(int(e.Fd)); err != nil {
				return err
			}
		}
		for len(a.pending) > 0 && time.Now().After(a.pending[0].deadline) {
			a.refuse(0)
		}
	}
	return nil
}

// close hangs up on whoever has not said hello.
func (a *admission) close() {
	for len(a.pending) > 0 {
		a.refuse(0)
	}
	a.group.close()
}

// untilRefusal is how long the connection that waits longest may still wait.
func (a *admission) untilRefusal() time.Duration {
	if len(a.pending) == 0 {
		return forever
	}
	return max(0, time.Until(a.pending[0].deadline)) + time.Millisecond
}

// handle takes one event: of an end, or of a pending connection.
func (a *admission) handle(number int) error {
	if number >= len(a.server.ends) {
		a.checkHello(number)
		return nil
	}
	end := a.server.ends[number]
	if end.tcp {
		return a.accept(end)
	}
	return a.receive(end)
}

// accept takes a connection, and refuses it where the end has its client.
func (a *admission) accept(end *passive) error {
	conn, err := end.entry.accept()
	switch {
	case err != nil && acceptFailed(err) != nil:
		return fmt.Errorf("accept: %w", err)
	case err != nil:
		return nil
	case end.hasClient:
		a.server.refuse(conn)
		return nil
	}
	if len(a.slots) == 0 {
		a.refuse(0)
	}
	slot := a.slots[len(a.slots)-1]
	if err := a.group.add(conn, slot); err != nil {
		conn.abort()
		return err
	}
	a.slots = a.slots[:len(a.slots)-1]
	a.pending = append(a.pending, pendingConn{socket: conn, end: end, slot: slot, deadline: time.Now().Add(helloTimeout)})
	return nil
}

// checkHello looks at what a pending connection begins with, and takes nothing of it before it
// is the client's hello.
func (a *admission) checkHello(slot int) {
	i := slices.IndexFunc(a.pending, func(c pendingConn) bool { return c.slot == slot })
	if i < 0 {
		return // it was refused in this round of events
	}
	c := &a.pending[i]
	var b [frameSize]byte
	n, _, err := unix.Recvfrom(c.fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
	case err != nil || n == 0 || c.end.hasClient || b[0] != frameMark:
		a.refuse(i)
	case n < frameSize && !c.partial:
		// What is there must not wake the thread again: the whole hello does, or the end.
		c.partial = true
		if c.setLowWater(frameSize) != nil {
			a.refuse(i)
		}
	case n < frameSize || !c.end.admits(b[:]):
		a.refuse(i)
	default:
		a.admit(i)
	}
}

// admit gives an end the connection of its client. Errors are the client's to see, too.
func (a *admission) admit(i int) {
	end, conn := a.pending[i].end, a.pending[i].socket
	a.forget(i)
	if end.server.load.Kind == load.Connect { // its own thread takes all further ones
		a.leave(end)
	}
	a.server.recordError(end.admitConn(conn))
}

// leave stops waiting for an end's entry.
func (a *admission) leave(end *passive) {
	a.group.remove(end.entry)
	a.entries--
}

// forget stops waiting for a pending connection.
func (a *admission) forget(i int) {
	a.group.remove(a.pending[i].socket)
	a.slots = append(a.slots, a.pending[i].slot)
	a.pending = slices.Delete(a.pending, i, i+1)
}

// refuse hangs up on a pending connection.
func (a *admission) refuse(i int) {
	conn := a.pending[i].socket
	a.forget(i)
	a.server.refuse(conn)
}

// receive takes one datagram, and ties the socket to who sent it if it is the client's
// hello.
func (a *admission) receive(end *passive) error {
	var b [frameSize + 1]byte // one more, to tell a longer one
	n, from, err := unix.Recvfrom(end.entry.fd, b[:], unix.MSG_DONTWAIT)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		return fmt.Errorf("receive hello: %w", err)
	case !end.admits(b[:n]):
		a.server.refused.Add(1)
		return nil
	}
	a.leave(end)
	if err := unix.Connect(end.entry.fd, from); err != nil {
		return fmt.Errorf("connect to client: %w", err)
	}
	a.drain(end)
	a.server.recordError(end.begin(end.entry, b[:n]))
	return nil
}

// drain throws away what others sent before the socket was the client's.
func (a *admission) drain(end *passive) {
	var b [frameSize + 1]byte
	for {
		n, _, err := unix.Recvfrom(end.entry.fd, b[:], unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return
		case !end.admits(b[:n]): // else the client's again
			a.server.refused.Add(1)
		}
	}
}

// admits tells whether a message is the hello of the end's client.
func (p *passive) admits(b []byte) bool {
	f, ok := parseFrame(b, p.server.plan.Token)
	return ok && f.kind == frameHello && f.hasNonce(p.server.plan.Nonce)
}

// admitConn takes the client's connection, whose hello is there to be read.
func (p *passive) admitConn(conn socket) error {
	var hello [frameSize]byte
	err := conn.recvAll(hello[:])
	if err == nil {
		err = errors.Join(conn.setLowWater(1), conn.noDelay())
	}
	if err != nil {
		conn.abort()
		return err
	}
	if p.server.load.Kind == load.Connect {
		defer conn.close()
		if err := p.callers.learn(conn, p.server.plan.Arms[p.arm], p.server.load.ClientPorts(p.server.plan.Flows)); err != nil {
			return err
		}
		return p.begin(conn, hello[:])
	}
	p.server.mu.Lock()
	p.conn = conn
	if p.server.closed {
		conn.shutdown()
	}
	p.server.mu.Unlock()
	return p.begin(conn, hello[:])
}

// begin answers the client's hello, and wakes the end's thread.
func (p *passive) begin(conn socket, hello []byte) error {
	defer close(p.client)
	p.hasClient = true
	return p.control(&conn, hello)
}

// awaitClient waits until the end has its client; false: the server closes.
func (p *passive) awaitClient() bool {
	select {
	case <-p.client:
		return true
	case <-p.server.done:
		return false
	}
}

// callers are where the connections of a client come from that makes one for each request:
// each of them has no room for a nonce.
type callers struct {
	addr        [4]byte
	first, last uint16 // ports
}

// learn takes them from the connection that said hello. Behind a translator of addresses
// the ports are any.
func (c *callers) learn(conn socket, arm load.Arm, ports int) error {
	name, err := unix.Getpeername(conn.fd)
	if err != nil {
		return fmt.Errorf("read the client's address: %w", err)
	}
	peer, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return errors.New("read the client's address: it is no IPv4 address")
	}
	*c = callers{peer.Addr, 0, 0xffff}
	if peer.Port >= arm.ClientPort && peer.Port < arm.ClientPort+ports {
		c.first, c.last = uint16(arm.ClientPort), uint16(arm.ClientPort+ports-1)
	}
	return nil
}

func (c *callers) include(from *unix.RawSockaddrInet4) bool {
	port := from.Port>>8 | from.Port<<8
	return from.Addr == c.addr && port >= c.first && port <= c.last
}

// refuse hangs up on somebody who is no client.
func (s *Server) refuse(conn socket) {
	conn.abort()
	s.refused.Add(1)
}

// Refused is how many connections and datagrams came that were not of the series, from
// whoever reaches the ports.
func (s *Server) Refused() int64 {
	n := s.refused.Load()
	for _, guest := range s.guests {
		n += guest.Refused()
	}
	if s.background != nil {
		n += s.background.Refused()
	}
	return n
}
