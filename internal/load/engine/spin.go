package engine

import "time"

// spin keeps the thread busy for ns.
func (c clock) spin(ns int64) {
	for end := c.now() + ns; c.now() < end; {
	}
}

// SpinFor gives the spin that costs extra on average, here and now: reading
// the clock takes time, and the last reading overshoots. 0 if extra is less
// than the shortest spin.
func SpinFor(extra time.Duration) time.Duration {
	const tries = 2000
	c := newClock()
	ask := extra
	for range 3 { // each pass takes off what the last one was too much
		start := c.now()
		for range tries {
			c.spin(ask.Nanoseconds())
		}
		cost := time.Duration((c.now() - start) / tries)
		ask -= cost - extra
	}
	return max(ask, 0)
}
