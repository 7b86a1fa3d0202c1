package kube

import (
	"net/http"
	"sync/atomic"
	"time"
)

// serverClock is the clock of the API server, whose timestamps the objects have: ours may be off.
type serverClock struct {
	skew atomic.Int64 // nanoseconds that it is ahead of ours, as of the last answer; 0 before the first one
}

// now is the server's time, to the second.
func (c *serverClock) now() time.Time { return time.Now().Add(time.Duration(c.skew.Load())) }

// wrap reads the clock off every answer.
func (c *serverClock) wrap(next http.RoundTripper) http.RoundTripper {
	return clockReader{next, c}
}

type clockReader struct {
	next  http.RoundTripper
	clock *serverClock
}

// RoundTrip is of [http.RoundTripper].
func (r clockReader) RoundTrip(q *http.Request) (*http.Response, error) {
	answer, err := r.next.RoundTrip(q)
	if err == nil {
		if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
			r.clock.skew.Store(int64(time.Until(date)))
		}
	}
	return answer, err
}
