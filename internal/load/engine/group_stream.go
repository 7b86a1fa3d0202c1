package engine

import (
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The engine of streams that share a thread, as one process of iperf3 has many. No flow
// keeps another from sending: what a socket does not take at once waits for the next turn.

// stream is a slice of streams; see [active.stream].
func (g *flowGroup) stream(d time.Duration) (err error) {
	first := g.flows[0]
	for _, a := range g.flows {
		a.sent, a.partial = sendCounts{}, 0
		if a.tcp {
			if err := a.conn.nagle(first.messageRate() == 0); err != nil {
				return err
			}
			a.sent.segments, a.sent.retransmit = a.conn.segments()
			continue
		}
		if err := a.conn.heat(true, a.timeout); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.conn.heat(false, a.answerTimeout)) }()
	}
	start := first.clock.now()
	switch {
	case first.messageRate() > 0:
		err = g.pace(d)
	case first.tcp:
		err = g.fill(start + d.Nanoseconds())
	default:
		err = g.rotate(start + d.Nanoseconds())
	}
	now := first.clock.now()
	for _, a := range g.flows {
		a.sent.ns = now - start
		if err == nil {
			err = a.finishMessage()
		}
	}
	return err
}

// fill sends on each TCP connection as much as it takes, until a time.
func (g *flowGroup) fill(end int64) error {
	for clock := g.flows[0].clock; clock.now() < end; {
		ready, err := g.ready.wait(hotTimeout)
		if err != nil {
			return err
		}
		for _, e := range ready {
			a := g.flows[e.Fd]
			if _, err := a.push(a.plan.Size-a.partial, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// rotate sends datagrams of each flow in its turn, until a time.
func (g *flowGroup) rotate(end int64) error {
	for clock := g.flows[0].clock; clock.now() < end; {
		for _, a := range g.flows {
			n, err := a.emit(a.buf[:a.plan.Size])
			if err != nil && !lossy(err) {
				return a.sendError(err)
			}
			a.sent.messages += n
		}
	}
	return nil
}

// pace sends the messages of d when they are due, of each flow in its turn. A flow that takes no
// more keeps its messages until it does.
func (g *flowGroup) pace(d time.Duration) error {
	n, first := len(g.flows), g.flows[0]
	p := first.newPacer(first.messageRate()*float64(n), d)
	for _, a := range g.flows {
		a.segment = first.segment
	}
	err := p.Run(g)
	for i, a := range g.flows {
		a.sent.asked = int64(turns(p.Asked(), i, n))
	}
	return err
}

// Now, SleepUntil, Stopped and SendParts are of [pace.Sender].
func (g *flowGroup) Now() int64 { return g.flows[0].Now() }

// SleepUntil is the thread's.
func (g *flowGroup) SleepUntil(at int64) { g.flows[0].SleepUntil(at) }

// Stopped is the first flow's: all have one end.
func (g *flowGroup) Stopped() bool { return g.flows[0].Stopped() }

// SendParts sends what is due of each flow, beginning with the one whose turn it is.
func (g *flowGroup) SendParts(due, n int) (went int, err error) {
	flows, parts := len(g.flows), g.flows[0].partsOf(g.flows[0].plan.Size)
	messages := (due + parts - 1) / parts
	for turn := range flows {
		i := (g.turn + turn) % flows
		a := g.flows[i]
		owed := (turns(messages, i, flows)-int(a.sent.messages))*parts - a.partial/a.segment
		if owed <= 0 {
			continue // a call that sends nothing costs CPU time, which is the figure
		}
		sent, err := a.sendSome(min(owed, n-went), false)
		if err != nil {
			return went, err
		}
		if went += sent; went == n {
			g.turn = i
			break
		}
	}
	return went, nil
}

// turns is how many of the first messages are those of one flow among some, which take turns.
func turns(messages, flow, flows int) int { return (messages + flows - 1 - flow) / flows }

// push sends so many bytes, from where the last message was left, and tells how many went: all of
// them if it is to wait, or what the connection takes at once.
func (a *active) push(bytes int, wait bool) (n int, err error) {
	next := a.buf[:bytes] // all bytes of all messages are the same
	if wait {
		n, err = bytes, a.conn.sendAll(next)
	} else {
		n, err = a.conn.sendNow(next)
	}
	switch {
	case errors.Is(err, unix.EAGAIN) && !wait:
		return 0, nil
	case err != nil:
		return 0, a.sendError(err)
	}
	a.partial += n
	a.sent.messages += int64(a.partial / a.plan.Size)
	a.partial %= a.plan.Size
	return n, nil
}

// finishMessage sends the rest of a message, and what Nagle's rule holds back; see
// [active.stream].
func (a *active) finishMessage() error {
	if !a.tcp {
		return nil
	}
	if a.partial > 0 {
		if _, err := a.push(a.plan.Size-a.partial, true); err != nil {
			return err
		}
	}
	return a.conn.nagle(false)
}

// sendNow is one send call that does not wait; EAGAIN: there is no room now.
func (s socket) sendNow(b []byte) (int, error) {
	return s.call(unix.SYS_SENDTO, unsafe.Pointer(unsafe.SliceData(b)), len(b), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
}

// recvNow is one receive call that does not wait.
func (s socket) recvNow(b []byte) (int, error) {
	return s.call(unix.SYS_RECVFROM, unsafe.Pointer(unsafe.SliceData(b)), len(b), unix.MSG_DONTWAIT)
}
