package engine

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/result"
)

// pingCounts is what a flow knows of a slice.
type pingCounts struct {
	requests, replies, lost, late int64
	headReplies                   int64
	missed                        int64 // requests that went out when the next was due
	rttSum                        int64 // ns
	elapsed                       int64 // ns, less the time that lost requests were waited for
}

// pingPong keeps one request outstanding for head, which is not counted, and
// then for timed.
func (a *active) pingPong(head, timed time.Duration) error {
	a.ping, a.sent = pingCounts{}, sendCounts{}
	a.rtt.Reset()
	if err := a.exchange(head); err != nil {
		return err
	}
	warm := a.ping
	a.ping = pingCounts{headReplies: warm.replies}
	a.rtt.Reset()
	return a.exchange(timed)
}

// exchange sends requests for d. One clock reading a request: the end of one is
// the start of the next, so the mean holds the loop's own cost, as qperf's does.
func (a *active) exchange(d time.Duration) error {
	message := a.buf[:a.plan.Size]
	c, at := &a.ping, a.clock.now()
	for end := at + d.Nanoseconds(); at < end; {
		a.number++
		putNumber(message, a.number)
		c.requests++
		got, err := a.trip(a, message)
		now := a.clock.now()
		if err != nil {
			return err
		}
		if got {
			c.replies++
			c.rttSum += now - at
			c.elapsed += now - at
			_ = a.rtt.RecordValue(now - at)
		} else {
			c.lost++
		}
		at = now
	}
	return nil
}

// roundTrip sends a request on the flow's connection and waits for the reply;
// false means that it is lost.
func (a *active) roundTrip(message []byte) (bool, error) {
	if err := a.conn.sendAll(message); err != nil && !lossy(err) {
		return false, fmt.Errorf("send request: %w", err)
	}
	return a.await()
}

var errNotSent = errors.New("receive reply: not the message that was sent")

// isReply tells whether a message has the number of the last request, as far as that and the
// reply have room for it.
func (a *active) isReply(b []byte) bool { return hasNumber(b[:min(len(b), a.plan.Size)], a.number) }

// await waits for the reply to the last request; false means that it is lost.
func (a *active) await() (bool, error) {
	for tries := 0; ; tries++ {
		n, err := a.conn.recvAny(a.tcp, a.buf, a.plan.ReplySize())
		switch {
		case errors.Is(err, unix.EAGAIN) && !a.tcp:
			return false, nil
		case errors.Is(err, unix.EAGAIN) && tries < mostTries:
			continue
		case errors.Is(err, unix.EAGAIN):
			return false, errNoAnswer
		case err != nil:
			return false, fmt.Errorf("receive reply: %w", err)
		case n == a.plan.ReplySize() && a.isReply(a.buf[:n]):
			return true, nil
		case a.tcp:
			return false, errNotSent
		}
		if a.buf[0] != frameMark {
			a.ping.late++
		}
	}
}

// sumPings adds the flows of an arm up to one slice.
func sumPings(flows []*active) (*result.Latency, time.Duration, error) {
	l := &result.Latency{Timeout: flows[0].timeout.Nanoseconds()}
	all, lateness := flows[0].rtt, flows[0].lateness
	var elapsed int64
	for i, a := range flows {
		c := a.ping
		l.Requests += c.requests
		l.Replies += c.replies
		l.HeadReplies += c.headReplies
		l.Lost += c.lost
		l.Late += c.late
		l.Missed += c.missed
		l.RTTSum += c.rttSum
		elapsed += c.elapsed
		if len(flows) > 1 {
			l.PerFlow = append(l.PerFlow, c.replies)
		}
		if i == 0 {
			continue
		}
		all.Merge(a.rtt)
		if lateness != nil {
			lateness.Merge(a.lateness)
		}
	}
	if lateness != nil {
		var err error
		if l.Lateness, err = result.EncodeRTT(lateness); err != nil {
			return nil, 0, fmt.Errorf("encode histogram: %w", err)
		}
	}
	encoded, err := result.EncodeRTT(all)
	if err != nil {
		return nil, 0, fmt.Errorf("encode histogram: %w", err)
	}
	l.RTT, l.RTTMedian = encoded, all.ValueAtQuantile(50)
	return l, time.Duration(elapsed / int64(len(flows))), nil
}
