package engine

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
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
		err = g.pace(start, d)
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
			if _, err := g.flows[e.Fd].push(); err != nil {
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

// pace sends the messages of d when they are due, of each flow in its turn; see [active.pace].
// A flow that takes no more keeps its messages until it does.
func (g *flowGroup) pace(start int64, d time.Duration) error {
	n, clock := len(g.flows), g.flows[0].clock
	rate := g.flows[0].messageRate() * float64(n)
	t := newTimetable(rate, 0, d)
	t.start = start
	for i, a := range g.flows {
		a.sent.asked = int64(turns(t.total, i, n))
	}
	burst := max(1, min(wakeBurst, int(rate*paceInterval.Seconds())))
	end, sent := start+int64(float64(d)*(1+paceGrace)), 0
	for now := start; sent < t.total && now < end; now = clock.now() {
		due := t.dueBy(now)
		went, err := g.sendDue(due, sent%n)
		if err != nil {
			return err
		}
		switch sent += went; {
		case went > 0:
		case sent < due: // flows that take no more
			g.flows[0].sleepUntil(now + paceInterval.Nanoseconds())
		default:
			g.flows[0].sleepUntil(t.due(min(sent+burst, t.total) - 1))
		}
	}
	return nil
}

// sendDue sends what is due of each flow, beginning with one of them, and mostBurst messages at
// most. It tells how many went.
func (g *flowGroup) sendDue(due, first int) (went int, err error) {
	n := len(g.flows)
	for turn := range n {
		i := (first + turn) % n
		a := g.flows[i]
		for owed := turns(due, i, n) - int(a.sent.messages); owed > 0 && went < load.MaxBurst; {
			sent, err := a.sendSome(min(owed, load.MaxBurst-went))
			if err != nil {
				return went, err
			}
			if sent == 0 {
				break
			}
			owed, went = owed-sent, went+sent
		}
	}
	return went, nil
}

// turns is how many of the first messages are those of one flow among some, which take turns.
func turns(messages, flow, flows int) int { return (messages + flows - 1 - flow) / flows }

// sendSome sends up to n messages without waiting for the other end, and tells how many went.
func (a *active) sendSome(n int) (int, error) {
	if a.tcp {
		whole, err := a.push()
		if whole {
			return 1, err
		}
		return 0, err
	}
	sent, err := a.emitSome(a.buf[:a.plan.Size], n)
	if err != nil && !lossy(err) {
		return sent, a.sendError(err)
	}
	a.sent.messages += int64(sent)
	return sent, nil
}

// push sends of a message, or of the rest of one, what the connection takes at once, and tells
// whether all of it has gone.
func (a *active) push() (whole bool, err error) {
	rest := a.buf[a.partial:a.plan.Size]
	n, err := a.conn.sendNow(rest)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("send: %w", err)
	case n < len(rest):
		a.partial += n
		return false, nil
	}
	a.partial = 0
	a.sent.messages++
	return true, nil
}

// finishMessage sends the rest of a message, and what Nagle's rule holds back; see
// [active.stream].
func (a *active) finishMessage() error {
	if !a.tcp {
		return nil
	}
	if a.partial > 0 {
		if err := a.conn.sendAll(a.buf[a.partial:a.plan.Size]); err != nil {
			return a.sendError(err)
		}
		a.partial = 0
		a.sent.messages++
	}
	return a.conn.nagle(false)
}

// sendNow is one send call that does not wait.
func (s socket) sendNow(b []byte) (int, error) {
	return s.call(unix.SYS_SENDTO, unsafe.Pointer(unsafe.SliceData(b)), len(b), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
}

// recvNow is one receive call that does not wait.
func (s socket) recvNow(b []byte) (int, error) {
	return s.call(unix.SYS_RECVFROM, unsafe.Pointer(unsafe.SliceData(b)), len(b), unix.MSG_DONTWAIT)
}
