package fastpath

import "time"

// sweepSchedule says when sweeps start: every so often, and those that delete everything at once.
type sweepSchedule struct {
	running bool   // a sweep is under way
	flush   bool   // the last one deletes everything
	regular uint32 // tick in which the last one started that does not: what deletes everything puts no other off
}

// start tells whether a sweep starts in a tick. flush: everything is to be deleted.
func (s *sweepSchedule) start(tick uint32, flush bool) bool {
	if !flush {
		if s.running || int32(tick-s.regular) < sweepEvery {
			return false
		}
		s.regular = tick
	}
	s.running, s.flush = true, flush
	return true
}

// pause is the time until the next step of a sweep, or until the next sweep.
func (s *sweepSchedule) pause(tick uint32) time.Duration {
	rest := max(0, sweepEvery-int32(tick-s.regular))
	switch {
	case s.running && s.flush:
		return flushPause
	case s.running:
		return sweepPause
	case !s.flush:
		rest = max(1, rest) // also behind one that took long
	}
	return time.Duration(rest) * heartbeat
}
