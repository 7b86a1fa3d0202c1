// Package lease says until when the programs of a fast path carry packets.
package lease

import "sync"

// Programs carry packets until a time, which is on a clock of their own.
type Programs interface {
	Now() (uint64, error)
	SetDeadline(end uint64) error // 0: they carry nothing
}

// Lease ends when the daemon has set it to end. It ends earlier while the daemon is late with the audit of rules that
// have changed: the rules may not be such that flows may bypass them, and the programs learn flows under them at once.
//
// The programs are told when it ends, and not that it has ended: so it does in time, whatever the daemon is at. An
// audit that is quick makes no difference to them, nor do changes that follow each other, as long as none waits for
// too long.
type Lease struct {
	programs Programs
	limit    uint64 // how long after a change its audit may end

	mu      sync.Mutex
	end     uint64 // as the daemon has set it; 0: nothing is carried
	start   uint64 // of the lease that it has; earlier ones have nothing to do with it
	due     uint64 // end of the limit of the first change that no audit has seen which is over; 0: there is none
	dueAnew uint64 // that of the first change since the last audit has begun; 0: there is none
}

// New is the lease of programs, which has ended. The limit is how long after a change of rules these must have been
// audited, on the clock of the programs.
func New(programs Programs, limit uint64) *Lease { return &Lease{programs: programs, limit: limit} }

// Set has the lease end at a time; 0: at once.
func (l *Lease) Set(end uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == 0 && end != 0 {
		now, err := l.programs.Now()
		if err != nil {
			return err
		}
		l.start = now
	}
	l.end = end
	return l.write()
}

// RulesChanged has the lease end unless an audit that begins from now on ends in time.
func (l *Lease) RulesChanged() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dueAnew != 0 {
		return nil // the same audit is for this change, too
	}
	now, err := l.programs.Now()
	if err != nil {
		return err
	}
	l.dueAnew = now + l.limit
	if l.due != 0 {
		return nil
	}
	l.due = l.dueAnew
	return l.write()
}

// AuditBegins notes that rules are read from now on.
func (l *Lease) AuditBegins() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dueAnew = 0
}

// AuditEnds notes that what was read was judged, and what follows from it was done. If the lease had ended meanwhile,
// resume is called before it holds again: the programs have not seen which connections were closed.
func (l *Lease) AuditEnds(resume func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.due == 0 {
		return nil
	}
	now, err := l.programs.Now()
	if err != nil {
		return err
	}
	if l.end != 0 && l.start < l.due && now+1 >= l.due { // or it ends before it is written anew
		if err := resume(); err != nil {
			return err
		}
	}
	l.due = l.dueAnew
	return l.write()
}

// write tells the programs when the lease ends.
func (l *Lease) write() error {
	end := l.end
	if l.due != 0 {
		end = min(end, l.due)
	}
	return l.programs.SetDeadline(end)
}
