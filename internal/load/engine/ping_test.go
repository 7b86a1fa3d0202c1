package engine

import (
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stamped is a prober that has received a packet which the kernel stamped some time ago.
func stamped(ago time.Duration) *icmpProber {
	p := &icmpProber{clock: newClock()}
	now := time.Now()
	p.offset = p.wallAhead(now)
	h := (*unix.Cmsghdr)(unsafe.Pointer(&p.control[0]))
	h.Level, h.Type = unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS
	*(*unix.Timespec)(unsafe.Pointer(&p.control[unix.SizeofCmsghdr])) = unix.NsecToTimespec(now.Add(-ago).UnixNano())
	p.header.SetControllen(len(p.control))
	return p
}

// The kernel's stamp says when an answer came, unless the clock of the day was set meanwhile:
// then the answer came when it was taken.
func TestArrivalWhenTheClockIsSet(t *testing.T) {
	const ago = 300 * time.Millisecond
	p := stamped(ago)
	if came := p.clock.now() - p.arrival(); time.Duration(came) < ago {
		t.Errorf("came %v ago, want %v", time.Duration(came), ago)
	}
	for _, step := range []time.Duration{200 * time.Millisecond, -200 * time.Millisecond, time.Hour} {
		p := stamped(ago)
		p.offset -= step.Nanoseconds() // as it was before the clock was set
		before := p.clock.now()
		if at := p.arrival(); at < before {
			t.Errorf("set by %v: came %v before it was taken", step, time.Duration(before-at))
		}
		if came := p.clock.now() - p.arrival(); time.Duration(came) < ago {
			t.Errorf("the answer after the step of %v came %v ago, want %v", step, time.Duration(came), ago)
		}
	}
}

// Errors of one connection, and want of room, do not end a listener.
func TestAcceptFailed(t *testing.T) {
	for _, err := range []error{unix.ECONNABORTED, unix.EPERM, unix.EPROTO, unix.ENETDOWN, unix.EHOSTUNREACH, unix.EMFILE, unix.ENOBUFS} {
		if got := acceptFailed(err); got != nil {
			t.Errorf("%v ends it", err)
		}
	}
	for _, err := range []error{unix.EBADF, unix.EINVAL} {
		if acceptFailed(err) == nil {
			t.Errorf("%v does not end it", err)
		}
	}
}
