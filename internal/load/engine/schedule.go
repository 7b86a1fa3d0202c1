package engine

import (
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load/thread"
)

// The engine that sends requests on a schedule, whatever became of those before. A slow
// answer holds no later request up, and every answer is timed from when its request was
// due: a path that stops for 100 ms shows all of those 100 ms, and so does a client that
// was not let run.

// timetable says when each request of a slice is due. A request that is due in the head is
// sent and not counted.
type timetable struct {
	start    int64 // ns
	interval float64
	head     int // requests
	total    int
	answered []uint64 // bits; see trackAnswers
}

func newTimetable(rate float64, head, timed time.Duration) timetable {
	t := timetable{interval: 1e9 / rate}
	count := func(d time.Duration) int { // of those that are due before d
		n := int(float64(d) / t.interval)
		for t.due(n) < d.Nanoseconds() {
			n++
		}
		return n
	}
	t.head, t.total = count(head), count(head+timed)
	return t
}

// trackAnswers makes room to note which requests have an answer.
func (t *timetable) trackAnswers() { t.answered = make([]uint64, (t.total+63)/64) }

// due is when the nth request is to be sent, by the client's clock.
func (t *timetable) due(n int) int64 { return t.start + int64(float64(n)*t.interval) }

// takeAnswer notes the first answer to a request; false: it has one.
func (t *timetable) takeAnswer(n int) bool {
	word, bit := &t.answered[n/64], uint64(1)<<(n%64)
	first := *word&bit == 0
	*word |= bit
	return first
}

// prober is what a load on a schedule has for each transport.
type prober interface {
	// send sends request number n without waiting. Error EAGAIN: there is no room now.
	send(number uint64) error
	// receive takes an answer that is there, and says when it came. Error EAGAIN: none is.
	// ok is false for anything that is no answer.
	receive() (number uint64, at int64, ok bool, err error)
	// fd is what becomes readable when there is something to receive.
	fd() int
	close()
}

// runSchedule sends the requests of a slice when each is due, and takes the answers until
// all are there or the last is lost.
func (a *active) runSchedule(head, timed time.Duration) error {
	t := newTimetable(a.messageRate(), head, timed)
	t.trackAnswers()
	a.ping, a.sent = pingCounts{elapsed: timed.Nanoseconds()}, sendCounts{}
	a.rtt.Reset()
	a.lateness.Reset()
	a.base = a.number + 1
	a.number += uint64(t.total)
	a.open = 0
	t.start = a.clock.now()
	for next := 0; ; {
		var err error
		if next, err = a.sendDue(&t, next); err != nil {
			return err
		}
		if a.aborted.Load() {
			return errPeerGone
		}
		until := t.due(next)
		if next == t.total {
			until = t.due(next-1) + a.timeout.Nanoseconds()
			if a.open == 0 || a.clock.now() >= until {
				break
			}
		}
		if err := a.takeAnswers(&t, until); err != nil {
			return err
		}
	}
	a.ping.lost = a.ping.requests - a.ping.replies
	return nil
}

// sendDue sends what is due, and tells which request is the next. Late ones are sent at
// once: their answers are timed from when they were due.
func (a *active) sendDue(t *timetable, next int) (int, error) {
	for ; next < t.total; next++ {
		now, due := a.clock.now(), t.due(next)
		if now < due {
			break
		}
		err := a.prober.send(a.base + uint64(next))
		full := errors.Is(err, unix.EAGAIN)
		switch {
		case full && now-due < a.timeout.Nanoseconds():
			return next, a.pollAnswers(t, thread.EarlyWake) // and try again
		case full: // it would be lost whatever became of it
		case err != nil && !lossy(err):
			return next, fmt.Errorf("send request: %w", err)
		default:
			a.open++
		}
		if next < t.head {
			continue
		}
		a.ping.requests++
		if now >= t.due(next+1) {
			a.ping.missed++
		}
		_ = a.lateness.RecordValue(now - due)
		if err := a.takeReady(t); err != nil {
			return next, err
		}
	}
	return next, nil
}

// takeAnswers takes the answers that come until a time; it may return sooner.
func (a *active) takeAnswers(t *timetable, until int64) error {
	left := time.Duration(until - a.clock.now())
	spin := min(thread.EarlyWake, time.Duration(t.interval/2))
	if left > spin {
		return a.pollAnswers(t, left-spin)
	}
	for a.clock.now() < until {
		if a.open == 0 {
			continue // a call that finds nothing would make what is due next late by its own length
		}
		if err := a.takeReady(t); err != nil {
			return err
		}
	}
	return nil
}

// pollAnswers sleeps until an answer comes or the time is over, and takes what is there.
func (a *active) pollAnswers(t *timetable, d time.Duration) error {
	timeout := unix.NsecToTimespec(min(d, hotTimeout).Nanoseconds()) // see socket
	poll := unix.PollFd{Fd: int32(a.prober.fd()), Events: unix.POLLIN}
	_, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
	if errno != 0 && errno != unix.EINTR {
		return fmt.Errorf("wait for replies: %w", errno)
	}
	return a.takeReady(t)
}

// takeReady takes all answers that are there.
func (a *active) takeReady(t *timetable) error {
	for {
		number, at, ok, err := a.prober.receive()
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil:
			return fmt.Errorf("receive reply: %w", err)
		case !ok:
		case number < a.base:
			a.ping.late++ // of a slice before
		case number-a.base < uint64(t.total):
			a.takeAnswer(t, int(number-a.base), at)
		}
	}
}

func (a *active) takeAnswer(t *timetable, n int, at int64) {
	if !t.takeAnswer(n) {
		return // a duplicate
	}
	a.open--
	took := at - t.due(n)
	switch {
	case took > a.timeout.Nanoseconds():
		if n >= t.head {
			a.ping.late++
		}
	case n < t.head:
		a.ping.headReplies++
	default:
		a.ping.replies++
		a.ping.rttSum += took
		_ = a.rtt.RecordValue(took)
	}
}
