package engine

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load/goodput"
	"github.com/venturi-net/venturi/result"
)

// sendCounts is what a sender knows of a slice.
type sendCounts struct {
	messages             int64
	ns                   int64
	asked                int64 // messages that were due, of a stream with a rate
	segments, retransmit int64 // TCP: the socket's counters; see settle
}

// stream sends messages for d, as fast as the socket takes them.
func (a *active) stream(d time.Duration) error {
	// The clock is read at every message where that costs nothing, else at each sixteenth.
	every := int64(1)
	if a.plan.Size < 1024 && a.out == nil {
		every = 16
	}
	a.sent, a.partial = sendCounts{}, 0
	if a.tcp {
		if err := a.conn.nagle(true); err != nil {
			return err
		}
		a.sent.segments, a.sent.retransmit = a.conn.segments()
	}
	if a.messageRate() > 0 {
		return a.pace(d)
	}
	message := a.buf[:a.plan.Size]
	start := a.clock.now()
	end := start + d.Nanoseconds()
	now, calls, messages := start, int64(0), int64(0)
	for now < end && !a.quit.Load() {
		n, err := a.emit(message)
		if err != nil && !lossy(err) {
			return a.sendError(err)
		}
		messages += n
		if calls++; calls&(every-1) == 0 {
			now = a.clock.now()
		}
	}
	a.sent.messages, a.sent.ns = messages, now-start
	if a.tcp {
		// Nagle's rule holds the last, half full segment back until the receiver's
		// delayed ACK comes, after 40 ms. That wait is of the end, not of the
		// stream, and as long as most slices: the rate must not hold it.
		return a.conn.nagle(false)
	}
	return nil
}

// settle makes the TCP counters, which are those of the socket at the start of
// the slice, those of the slice. It must come after the server's answer to the
// end: only then is all that was sent acknowledged, and what was lost of the
// last bytes sent again. The end's own segment is in the count.
func (s *sendCounts) settle(conn socket) {
	segments, again := conn.segments()
	s.segments, s.retransmit = segments-s.segments, again-s.retransmit
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

// sumStreams adds the flows of an arm up to one slice; see [goodput.Sum]. A slice
// in which too little arrived for a rate has a window of 0; what it sent and lost
// counts all the same.
//
// A receiver of datagrams that was kept from running while they were sent, by the
// work that their arrival is, finds at the end what its socket has room for, and
// takes that in no time. Such a window says nothing: the figure is then what was
// received in all, in the time in which it was sent.
func sumStreams(flows []*active) (*result.Stream, time.Duration) {
	s := &result.Stream{}
	size := int64(flows[0].plan.Size)
	var got []goodput.Account
	for _, a := range flows {
		of := a.done.account()
		got = append(got, of)
		s.SentMessages += a.sent.messages
		s.AskedMessages += a.sent.asked
		s.SendNs += a.sent.ns
		s.Packets += a.sent.segments
		s.Retransmits += a.sent.retransmit
		if len(flows) > 1 {
			s.PerFlow = append(s.PerFlow, of.Bytes)
		}
	}
	all := goodput.Sum(got)
	s.RecvMessages, s.RateMessages = all.Messages, all.Bytes/size
	s.SentBytes, s.RecvBytes, s.RateBytes = s.SentMessages*size, s.RecvMessages*size, all.Bytes
	s.SendNs /= int64(len(flows))
	s.RateNs = all.To - all.From
	if sent := s.SendNs - flows[0].plan.Head.Nanoseconds(); !flows[0].tcp && s.RecvMessages > 0 && 2*s.RateNs < sent {
		s.RateMessages, s.RateBytes, s.RateNs = s.RecvMessages, s.RecvBytes, s.SendNs
	}
	return s, time.Duration(s.SendNs)
}
