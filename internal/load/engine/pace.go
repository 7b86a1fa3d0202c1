package engine

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
)

// A stream with a rate sends each message when it is due. Its figure is CPU time, so the
// sender never spins: it sleeps, and sends what has become due meanwhile.

const (
	// paceInterval is for how long a sender sleeps if its rate allows: waking it for every
	// message would cost more than the messages.
	paceInterval = 100 * time.Microsecond
	// wakeBurst is how many messages a sender waits for at most. A timer wakes it some ten
	// microseconds late, and mostBurst must not be due by then.
	wakeBurst = 16
	// paceGrace is the part of a slice for which a sender that was held up may go on after
	// its end.
	paceGrace = 0.01
)

// pace sends the messages of d when they are due. What cannot be sent by then is not.
func (a *active) pace(d time.Duration) error {
	rate := a.messageRate()
	t := newTimetable(rate, 0, d)
	a.sent.asked = int64(t.total)
	burst := max(1, min(wakeBurst, int(rate*paceInterval.Seconds())))
	if a.tcp {
		if err := a.conn.noDelay(); err != nil {
			return err
		}
	}
	message := a.buf[:a.plan.Size]
	t.start = a.clock.now()
	end := t.start + int64(float64(d)*(1+paceGrace))
	now := t.start
	for next := 0; next < t.total && now < end; now = a.clock.now() {
		if a.quit.Load() {
			a.sent.asked = int64(t.dueBy(now))
			break
		}
		due := min(t.dueBy(now)-next, load.MaxBurst)
		if due <= 0 {
			a.sleepUntil(t.due(min(next+burst, t.total) - 1))
			continue
		}
		sent, err := a.emitSome(message, due)
		if err != nil && !lossy(err) {
			return a.sendError(err)
		}
		next += sent
		a.sent.messages += int64(sent)
	}
	a.sent.ns = now - t.start
	return nil
}

// dueBy is how many messages are due at a time.
func (t *timetable) dueBy(now int64) int {
	n := int(float64(now-t.start) / t.interval)
	for n < t.total && t.due(n) <= now {
		n++
	}
	return min(n, t.total)
}

// emitSome sends up to n messages, and tells how many went.
func (a *active) emitSome(message []byte, n int) (sent int, err error) {
	if a.out != nil {
		return a.out.sendSome(a.conn, n)
	}
	for sent < n && err == nil {
		err = a.conn.sendAll(message)
		sent++
	}
	return sent, err
}

// sleepUntil sleeps until a time by the flow's clock, or for hotTimeout: see socket.
func (a *active) sleepUntil(at int64) {
	left := min(time.Duration(at-a.clock.now()), hotTimeout)
	if left <= 0 {
		return
	}
	timeout := unix.NsecToTimespec(left.Nanoseconds())
	if a.conn.hot {
		_, _, _ = syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
		return
	}
	_, _, _ = syscall.Syscall6(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
}
