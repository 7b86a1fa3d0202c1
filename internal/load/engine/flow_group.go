package engine

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
)

// flowGroup is the active ends of an arm that share a thread, which is that of the first.
type flowGroup struct {
	flows []*active
	ready *epollGroup // of a ping-pong: what can be read; of a stream: what can be written
	turn  int         // the flow that sends next, of a stream with a rate
}

// groupFlows deals the flows of an arm out to groups.
func groupFlows(l load.Load, plan *load.Plan, flows []*active) (groups []*flowGroup, err error) {
	defer func() {
		if err != nil {
			closeGroups(groups)
		}
	}()
	events := uint32(unix.EPOLLIN)
	if l.Kind == load.Stream {
		events = unix.EPOLLOUT
	}
	for _, of := range byThread(plan.ThreadCount(l), flows) {
		ready, err := newEpollGroup(len(of))
		if err != nil {
			return groups, err
		}
		groups = append(groups, &flowGroup{flows: of, ready: ready})
		for i, a := range of {
			if err := ready.addFor(events, a.conn, i); err != nil {
				return groups, err
			}
		}
	}
	return groups, nil
}

func closeGroups(groups []*flowGroup) {
	for _, g := range groups {
		g.ready.close()
	}
}

// run is one slice of the group, on the calling thread.
func (g *flowGroup) run(head, timed time.Duration) error {
	if g.flows[0].load.Kind == load.Stream {
		return g.stream(head + timed)
	}
	return g.pingPong(head, timed)
}

// pingPong is a slice of ping-pongs; see [active.pingPong].
func (g *flowGroup) pingPong(head, timed time.Duration) (err error) {
	for _, a := range g.flows {
		a.ping, a.sent = pingCounts{}, sendCounts{}
		if err := a.conn.heat(true, hotTimeout); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.conn.heat(false, a.answerTimeout)) }()
	}
	g.ready.hot = true
	defer func() { g.ready.hot = false }()
	if err := g.exchange(head); err != nil {
		return err
	}
	for _, a := range g.flows {
		a.ping = pingCounts{headReplies: a.ping.replies}
		a.rtt.Reset()
	}
	return g.exchange(timed)
}

// exchange keeps one request outstanding on each flow for d, and waits for the last
// replies. The end of one request is the start of the next, as in [active.exchange].
func (g *flowGroup) exchange(d time.Duration) error {
	clock := g.flows[0].clock
	now := clock.now()
	end, checked := now+d.Nanoseconds(), now
	open := 0
	next := func(a *active, at int64) error {
		a.since = 0
		if at >= end {
			open--
			return nil
		}
		a.since = at
		return a.request()
	}
	for _, a := range g.flows {
		open++
		if err := next(a, now); err != nil {
			return err
		}
	}
	for open > 0 {
		events, err := g.ready.wait(hotTimeout / 5)
		if err != nil {
			return err
		}
		for _, e := range events {
			a := g.flows[e.Fd]
			got, err := a.reply()
			if err != nil {
				return err
			}
			now = clock.now()
			if !got || a.since == 0 {
				continue
			}
			a.ping.replies++
			a.ping.rttSum += now - a.since
			a.ping.elapsed += now - a.since
			_ = a.rtt.RecordValue(now - a.since)
			if err := next(a, now); err != nil {
				return err
			}
		}
		if len(events) == 0 {
			now = clock.now()
		}
		if now-checked < minTimeout.Nanoseconds()/4 {
			continue
		}
		checked = now
		for _, a := range g.flows {
			switch waited := now - a.since; {
			case a.since == 0:
			case a.tcp && waited > ioTimeout.Nanoseconds():
				return errNoAnswer
			case !a.tcp && waited > a.timeout.Nanoseconds():
				a.ping.lost++
				if err := next(a, now); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// request sends the next request.
func (a *active) request() error {
	message := a.buf[:a.plan.Size]
	a.number++
	putNumber(message, a.number)
	a.ping.requests++
	if err := a.conn.sendAll(message); err != nil && !lossy(err) {
		return fmt.Errorf("send request: %w", err)
	}
	return nil
}

// reply takes what has come; false: it is not the reply to the last request.
func (a *active) reply() (bool, error) {
	n, err := a.conn.recvReady(a.tcp, a.buf, a.plan.ReplySize())
	switch {
	case errors.Is(err, unix.EAGAIN) && !a.tcp:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("receive reply: %w", err)
	case n == a.plan.ReplySize() && a.isReply(a.buf[:n]):
		return true, nil
	case a.tcp:
		return false, errNotSent
	}
	if n > 0 && a.buf[0] != frameMark {
		a.ping.late++
	}
	return false, nil
}
