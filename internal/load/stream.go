package load

import (
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/result"
)

// sendCounts is what a sender knows of a slice.
type sendCounts struct {
	messages, bytes      int64
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
	a.sent = sendCounts{messages: messages, bytes: messages * int64(len(message)), ns: now - start}
	if a.tcp {
		s, r := a.conn.segments()
		a.sent.segments, a.sent.retransmit = s-segments, r-again
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

// fragments is how many IPv4 packets carry a datagram of size bytes.
func fragments(size, mtu int) int64 {
	if mtu < 576 || size+28 <= mtu {
		return 1
	}
	room := (mtu - 20) &^ 7
	return int64((size + 8 + room - 1) / room)
}

// rate gives what arrived by the receiver's clock, and in how many ns. A flow
// that was starved until nearly the end of the slice has no such window; what
// it received then counts over the whole time of sending.
func (a *active) rate() (messages, bytes, ns float64) {
	v := a.done.values
	if v[4] == 0 {
		return float64(v[0]), float64(v[1]), float64(a.sent.ns)
	}
	return float64(v[2]), float64(v[3]), float64(v[4])
}

// sumStreams adds the flows of an arm up to one slice. Each flow's rate is
// over its own time, so they are brought to the mean of those times first.
func sumStreams(flows []*active) (*result.Stream, time.Duration, error) {
	s := &result.Stream{}
	var perNs, bytesPerNs, ns float64
	for _, a := range flows {
		s.SentMessages += a.sent.messages
		s.SentBytes += a.sent.bytes
		s.SendNs += a.sent.ns
		s.RecvMessages += int64(a.done.values[0])
		s.RecvBytes += int64(a.done.values[1])
		s.Packets += a.sent.segments
		s.Retransmits += a.sent.retransmit
		if !a.tcp {
			s.Packets += a.sent.messages * fragments(a.plan.Size, a.plan.Arms[a.arm].From.MTU)
		}
		m, b, d := a.rate()
		perNs += m / d
		bytesPerNs += b / d
		ns += d
	}
	if s.RecvMessages == 0 {
		return nil, 0, errors.New("nothing arrived in the slice")
	}
	n := float64(len(flows))
	s.SendNs /= int64(len(flows))
	s.RateNs = int64(ns / n)
	s.RateMessages = int64(math.Round(perNs * ns / n))
	s.RateBytes = int64(math.Round(bytesPerNs * ns / n))
	return s, time.Duration(s.SendNs), nil
}
