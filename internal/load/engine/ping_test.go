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

// A prober's buffer holds no answers to others that ping the same machine: they would leave no
// room for its own. Two probers of one pair of addresses are two arms of one path.
func TestAnswersToOthers(t *testing.T) {
	skipUnlessOpens(t, ping)
	p := loopback(t, ping.Name, 1, 1, ping.Size, 20010)
	clock := newClock()
	open := func(id int) *icmpProber {
		prober, err := newICMPProber(p.Arms[0].Ends[0], id, clock, p.Token, ping.Size)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(prober.close)
		return prober
	}
	idle, busy := open(20010), open(20011)
	answered := func(prober *icmpProber) {
		t.Helper()
		if err := prober.send(1); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(prober.fd()), Events: unix.POLLIN}}, 10_000); err != nil {
			t.Fatal(err)
		}
		if number, _, ok, err := prober.receive(); number != 1 || !ok || err != nil {
			t.Fatalf("answer %d, %v, %v", number, ok, err)
		}
	}
	answered(busy)
	if n, _, err := unix.Recvfrom(idle.fd(), make([]byte, 2000), unix.MSG_DONTWAIT); err == nil {
		t.Errorf("%d bytes of an answer to another", n)
	}
	answered(idle)
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
