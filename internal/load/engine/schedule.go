package engine

import (
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load/pace"
	"github.com/venturi-net/venturi/internal/load/thread"
)

// The engine that sends requests on a schedule, whatever became of those before. A slow
// answer holds no later request up, and every answer is timed from when its request was
// due: a path that stops for 100 ms shows all of those 100 ms, and so does a client that
// was not let run.

// timetable says when each request of a slice is due, and which have an answer.
type timetable struct {
	pace.Timetable
	answered []uint64 // bits; see trackAnswers
}

// trackAnswers makes room to note which requests have an answer.
func (t *timetable) trackAnswers() { t.answered = make([]uint64, (t.Total+63)/64) }

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
	t := timetable{Timetable: pace.NewTimetable(a.messageRate(), head, timed)}
	t.trackAnswers()
	a.ping, a.sent = pingCounts{elapsed: timed.Nanoseconds()}, sendCounts{}
	a.rtt.Reset()
	a.lateness.Reset()
	a.base = a.number + 1
	a.number += uint64(t.Total)
	a.open = 0
	t.Start = a.clock.now()
	for next := 0; ; {
		var err error
		if next, err = a.sendDue(&t, next); err != nil {
			return err
		}
		if a.aborted.Load() {
			return errPeerGone
		}
		until := t.Due(next)
		if next == t.Total {
			until = t.Due(next-1) + a.timeout.Nanoseconds()
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
	for ; next < t.Total; next++ {
		now, due := a.clock.now(), t.Due(next)
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
		if next < t.Head {
			continue
		}
		a.ping.requests++
		if now >= t.Due(next+1) {
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
	spin := min(thread.EarlyWake, time.Duration(t.Interval/2))
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
		case number-a.base < uint64(t.Total):
			a.takeAnswer(t, int(number-a.base), at)
		}
	}
}

func (a *active) takeAnswer(t *timetable, n int, at int64) {
	if !t.takeAnswer(n) {
		return // a duplicate
	}
	a.open--
	took := at - t.Due(n)
	switch {
	case took > a.timeout.Nanoseconds():
		if n >= t.Head {
			a.ping.late++
		}
	case n < t.Head:
		a.ping.headReplies++
	default:
		a.ping.replies++
		a.ping.rttSum += took
		_ = a.rtt.RecordValue(took)
	}
}
