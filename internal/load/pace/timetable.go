package pace

import "time"

// Timetable says when each request or message of a slice is due. One that is due in the head is
// sent and not counted.
type Timetable struct {
	Start    int64   // by the sender's clock, ns
	Interval float64 // ns
	Head     int
	Total    int
}

// NewTimetable is that of so many a second.
func NewTimetable(rate float64, head, timed time.Duration) Timetable {
	t := Timetable{Interval: 1e9 / rate}
	count := func(d time.Duration) int { // of those that are due before d
		n := int(float64(d) / t.Interval)
		for t.Due(n) < d.Nanoseconds() {
			n++
		}
		return n
	}
	t.Head, t.Total = count(head), count(head+timed)
	return t
}

// Due is when the nth is to be sent, by the sender's clock.
func (t *Timetable) Due(n int) int64 { return t.Start + int64(float64(n)*t.Interval) }

// dueBy is how many are due at a time.
func (t *Timetable) dueBy(now int64) int {
	n := int(float64(now-t.Start) / t.Interval)
	for n < t.Total && t.Due(n) <= now {
		n++
	}
	return min(n, t.Total)
}
