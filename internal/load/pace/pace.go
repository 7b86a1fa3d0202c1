// Package pace says when what is offered at a rate is sent.
//
// A stream with a rate sends each message when it is due. Its figure is CPU time, so the
// sender sleeps, and sends what has become due meanwhile. A sender that was held up makes up
// for that at a bounded rate, in short bursts: a queue that grows on the path must be the
// path's own.
package pace

import (
	"math"
	"time"

	"github.com/venturi-net/venturi/internal/load"
)

const (
	// interval is for how long a sender sleeps if its rate allows: waking it for every
	// message would cost more than the messages.
	interval = 100 * time.Microsecond
	// wakeBurst is how many packets a sender waits for at most. A timer wakes it some ten
	// microseconds late, and load.MaxBurst should not be due by then.
	wakeBurst = 16
	// catchUp is how many times the rate a sender may send that is late. On a busy machine it runs
	// for a fraction of the time, and has to send all in that.
	catchUp = 8
	// leastSleep is for how long a sender that is late sleeps at least. For less it spins: the
	// timer would make it later still, and at a high rate it would never catch up.
	leastSleep = 20 * time.Microsecond
	// grace is the part of a slice for which a sender that was held up may go on after
	// its end.
	grace = 0.01
)

// Pacer says when a sender sends: each message when it is due, as far as there are tokens in a
// bucket. The bucket holds load.MaxBurst packets, and fills at catchUp times the rate. The pacer
// counts the parts in which messages are sent: a datagram is one, a message of TCP has one for
// each segment. A burst of these goes in one call, as the kernel then hands them to the device at
// once: a sender of half bursts would not hold what a stream without a rate carries.
type Pacer struct {
	Timetable       // of parts
	length    int64 // ns, of the slice
	parts     int   // of a message
	asked     int   // messages, by when the slice ended
	depth     int   // parts that the bucket holds
	wake      int   // parts that are worth waking for
	tokens    float64
	now       int64 // when tokens were counted, by the sender's clock
	sent      int   // parts
	ending    bool  // no further message is begun
}

// Sender is whoever sends at a pace.
type Sender interface {
	Now() int64 // ns
	// SleepUntil may return sooner.
	SleepUntil(at int64)
	// SendParts sends n parts of the messages that are due, or as many as go at once, and tells
	// how many went. due counts all that have become due since the slice began.
	SendParts(due, n int) (went int, err error)
	// Stopped tells whether the slice ends before its time.
	Stopped() bool
}

// New is a pacer of a slice of length d with so many messages a second, which are cut into
// parts of so many packets.
func New(rate float64, d time.Duration, parts, packets int) *Pacer {
	messages := NewTimetable(rate, 0, d).Total
	wake := max(1, min(wakeBurst/packets, int(rate*interval.Seconds())))
	if parts > 1 {
		wake = load.MaxBurst
	}
	return &Pacer{
		Timetable: Timetable{Interval: 1e9 / rate / float64(parts), Total: messages * parts},
		length:    d.Nanoseconds(), parts: parts, asked: messages,
		depth: max(1, load.MaxBurst/packets), wake: wake,
	}
}

// Run sends the messages of a slice when they are due. What cannot be sent by its end is not.
func (p *Pacer) Run(s Sender) error {
	p.Start = s.Now()
	p.now, p.tokens = p.Start, float64(p.depth)
	for ; ; p.fill(s.Now()) {
		if !p.ending && s.Stopped() {
			p.stop()
		}
		if !p.ending && p.now >= p.Start+int64(float64(p.length)*(1+grace)) {
			p.endWith(p.sent)
		}
		if p.sent >= p.Total {
			return nil
		}
		n, at := p.burst()
		if n == 0 {
			if at > p.now {
				s.SleepUntil(at)
			}
			continue
		}
		went, err := s.SendParts(max(p.dueBy(p.now), p.sent+n), n)
		if err != nil {
			return err
		}
		p.sent += went
		p.tokens -= float64(went)
		if went == 0 { // the connections take no more
			if p.ending {
				return nil
			}
			s.SleepUntil(p.now + interval.Nanoseconds())
		}
	}
}

// burst is how many parts may go now, or, where none may, until when to wait.
func (p *Pacer) burst() (n int, at int64) {
	due, end := p.dueBy(p.now), p.burstEnd()
	if due <= p.sent {
		first := end - 1
		if p.parts > 1 {
			first = p.sent
		}
		return 0, min(p.Due(first), p.Start+p.length)
	}
	if p.parts > 1 {
		due = max(due, end)
	}
	n = min(due, p.messageEnd(), p.sent+p.depth) - p.sent
	if missing := float64(n) - p.tokens; missing > 0 {
		if wait := math.Ceil(missing * p.Interval / catchUp); wait >= float64(leastSleep) {
			at = p.now + int64(wait)
		}
		return 0, at
	}
	return n, 0
}

// burstEnd is up to what part a sender on time sends next: of datagrams when all of these are due,
// of TCP, whose messages are due as a whole, when the first part is. So a late timer does not take
// the slice's last message from it.
func (p *Pacer) burstEnd() int { return min(p.sent+p.wake, p.messageEnd()) }

// messageEnd is with what part a burst ends at the latest: with the message if that is of several
// parts and no larger than a burst, since each message then has a call of its own.
func (p *Pacer) messageEnd() int {
	if p.parts == 1 || p.parts > p.depth {
		return p.Total
	}
	return min(p.Total, p.messages(p.sent+1)*p.parts)
}

// stop ends the slice before its time. What is due now is asked for and goes, as far as a sender
// on time had not sent it yet.
func (p *Pacer) stop() {
	due, reached := p.dueBy(p.now), p.sent
	switch end := p.burstEnd(); {
	case p.parts > 1 && due > p.sent:
		reached = min(end, p.messages(due)*p.parts)
	case due >= end:
		reached = end
	}
	p.asked = max(p.messages(reached), due/p.parts)
	p.endWith(reached)
}

// endWith ends the slice with the message of a part: the other end counts whole ones.
func (p *Pacer) endWith(part int) {
	p.Total, p.ending = p.messages(part)*p.parts, true
}

// fill adds the tokens of the time since they were counted.
func (p *Pacer) fill(now int64) {
	p.tokens = min(float64(p.depth), p.tokens+float64(now-p.now)*catchUp/p.Interval)
	p.now = now
}

// dueBy is how many parts are due at a time. The last message is due with the slice's end.
func (p *Pacer) dueBy(now int64) int {
	if p.ending || now >= p.Start+p.length {
		return p.Total
	}
	return p.Timetable.dueBy(now)
}

// messages is of how many messages so many parts are, the last one whole or not.
func (p *Pacer) messages(parts int) int { return (parts + p.parts - 1) / p.parts }

// Asked is how many messages should have been sent.
func (p *Pacer) Asked() int { return p.asked }

// Elapsed is how long the slice took, ns.
func (p *Pacer) Elapsed() int64 { return p.now - p.Start }
