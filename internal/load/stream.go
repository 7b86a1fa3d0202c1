package load

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/result"
)

// sendCounts is what a sender knows of a slice.
type sendCounts struct {
	messages             int64
	ns                   int64
	segments, retransmit int64 // TCP
}

// stream sends messages for d, as fast as the socket takes them.
func (a *active) stream(d time.Duration) error {
	// The clock is read at every message where that costs nothing, else at each sixteenth.
	every := int64(1)
	if a.plan.Size < 1024 && a.out == nil {
		every = 16
	}
	a.sent = sendCounts{}
	var segments, again int64
	if a.tcp {
		if err := a.conn.nagle(true); err != nil {
			return err
		}
		segments, again = a.conn.segments()
	}
	message := a.buf[:a.plan.Size]
	start := a.clock.now()
	end := start + d.Nanoseconds()
	now, calls, messages := start, int64(0), int64(0)
	for now < end {
		n, err := a.emit(message)
		if err != nil && !lossy(err) {
			return a.sendError(err)
		}
		messages += n
		if calls++; calls&(every-1) == 0 {
			now = a.clock.now()
		}
	}
	a.sent = sendCounts{messages: messages, ns: now - start}
	if a.tcp {
		s, r := a.conn.segments()
		a.sent.segments, a.sent.retransmit = s-segments, r-again
		// Nagle's rule holds the last, half full segment back until the receiver's
		// delayed ACK comes, after 40 ms. That wait is of the end, not of the
		// stream, and as long as most slices: the rate must not hold it.
		return a.conn.nagle(false)
	}
	return nil
}

// emit makes one system call, or as many as a whole TCP message takes, and
// tells how many messages went.
func (a *active) emit(message []byte) (int64, error) {
	if a.out != nil {
		n, err := a.out.send(a.conn)
		return int64(n), err
	}
	return 1, a.conn.sendAll(message)
}

func (a *active) sendError(err error) error {
	if errors.Is(err, unix.EAGAIN) {
		return errNoAnswer
	}
	return fmt.Errorf("send: %w", err)
}

// sumStreams adds the flows of an arm up to one slice. The rate is over one
// window for all: from the first flow that was under way to the last message of
// any. Flows come in bursts, and rates over windows of their own would add up
// to more than ever arrived at a time.
func sumStreams(flows []*active) (*result.Stream, time.Duration, error) {
	s := &result.Stream{}
	size := int64(flows[0].plan.Size)
	var from, to int64
	for _, a := range flows {
		got := a.done.account()
		s.SentMessages += a.sent.messages
		s.SendNs += a.sent.ns
		s.RecvMessages += got.messages
		s.RateMessages += got.window
		s.Packets += a.sent.segments
		s.Retransmits += a.sent.retransmit
		if got.to > 0 {
			if from == 0 || got.from < from {
				from = got.from
			}
			to = max(to, got.to)
		}
	}
	if s.RateMessages == 0 {
		return nil, 0, errors.New("too few messages arrived in the slice to tell a rate")
	}
	s.SentBytes, s.RecvBytes, s.RateBytes = s.SentMessages*size, s.RecvMessages*size, s.RateMessages*size
	s.SendNs /= int64(len(flows))
	s.RateNs = to - from
	return s, time.Duration(s.SendNs), nil
}
