package engine

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/pace"
)

// pace sends the messages of d when they are due.
func (a *active) pace(d time.Duration) error {
	if a.tcp {
		if err := a.conn.noDelay(); err != nil {
			return err
		}
	}
	p := a.newPacer(a.messageRate(), d)
	err := p.Run(a)
	a.sent.asked, a.sent.ns = int64(p.Asked()), p.Elapsed()
	if err != nil {
		return err
	}
	return a.finishMessage()
}

// newPacer is a pacer for messages as this flow sends them.
func (a *active) newPacer(rate float64, d time.Duration) *pace.Pacer {
	a.segment = a.plan.Size
	if !a.tcp {
		return pace.New(rate, d, 1, a.conn.fragments(a.plan.Size))
	}
	if most := a.conn.segmentSize(); most > 0 {
		a.segment = min(most, a.plan.Size)
	}
	return pace.New(rate, d, a.partsOf(a.plan.Size), 1)
}

// partsOf is how many parts so many bytes of a message have, the last one whole or not.
func (a *active) partsOf(bytes int) int { return (bytes + a.segment - 1) / a.segment }

// Now, SleepUntil, Stopped and SendParts are of [pace.Sender].
func (a *active) Now() int64 { return a.clock.now() }

// Stopped tells whether another load, beside which this stream runs, has ended its slice.
func (a *active) Stopped() bool { return a.quit.Load() }

// SendParts waits for what the connection does not take at once.
func (a *active) SendParts(_, n int) (int, error) { return a.sendSome(n, true) }

// sendSome sends up to n parts, and tells how many went. With wait it waits until the connection
// takes them.
func (a *active) sendSome(n int, wait bool) (went int, err error) {
	if !a.tcp {
		sent, err := a.emitSome(a.buf[:a.plan.Size], n)
		if err != nil && !lossy(err) {
			return sent, a.sendError(err)
		}
		a.sent.messages += int64(sent)
		return sent, nil
	}
	size, parts := a.plan.Size, a.partsOf(a.plan.Size)
	for went < n {
		first, messages := a.partial/a.segment, a.sent.messages
		until := first + n - went // parts, from where the message began
		if parts <= load.MaxBurst {
			until = min(until, parts)
		}
		want := min(until/parts*size+min(until%parts*a.segment, size)-a.partial, len(a.buf))
		sent, err := a.push(want, wait)
		if err != nil {
			return went, err
		}
		went += int(a.sent.messages-messages)*parts + a.partial/a.segment - first
		if sent < want {
			break // it takes no more
		}
	}
	return went, nil
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

// SleepUntil sleeps until a time by the flow's clock, or for hotTimeout: see socket.
func (a *active) SleepUntil(at int64) {
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
