package lease_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/lease"
)

// programs have a clock that stands still until a test moves it.
type programs struct{ now, deadline uint64 }

func (p *programs) Now() (uint64, error) { return p.now, nil }

func (p *programs) SetDeadline(end uint64) error {
	p.deadline = end
	return nil
}

// A lease ends where the daemon has set it to, and earlier if a change of rules would wait longer for its audit than it
// may. What was learned before such an end is void.
func TestLease(t *testing.T) {
	const limit, long = 90, 4000
	p := &programs{now: 1000}
	l := lease.New(p, limit)
	resumed := 0
	set := func(end uint64) func() error { return func() error { return l.Set(end) } }
	begin := func() error { l.AuditBegins(); return nil }
	end := func() error { return l.AuditEnds(func() error { resumed++; return nil }) }
	renew := func() error { return l.Set(p.now + long) }
	for i, step := range []struct {
		what    string
		after   uint64 // what the step before
		do      func() error
		lasts   int // from then on; 0: nothing is carried
		resumed int // until then
	}{
		{"the first lease", 0, renew, long, 0},
		{"an audit begins, though nothing has changed", 10, begin, long - 10, 0},
		{"it ends", 10, end, long - 20, 0},
		{"rules change", 0, l.RulesChanged, limit, 0},
		{"and again", 30, l.RulesChanged, limit - 30, 0},
		{"the lease is renewed", 0, renew, limit - 30, 0},
		{"their audit begins", 10, begin, limit - 40, 0},
		{"it ends", 20, end, long - 30, 0},

		{"rules change", 0, l.RulesChanged, limit, 0},
		{"their audit begins", 10, begin, limit - 10, 0},
		{"they change once more", 20, l.RulesChanged, limit - 30, 0},
		{"and again", 5, l.RulesChanged, limit - 35, 0},
		{"the audit ends, which may have missed that", 10, end, limit - 15, 0},
		{"another one begins", 50, begin, limit - 65, 0},
		{"it ends", 20, end, long - 145, 0},

		{"rules change", 0, l.RulesChanged, limit, 0},
		{"an audit begins, which fails", 10, begin, limit - 10, 0},
		{"another one begins", 50, begin, limit - 60, 0},
		{"the lease is renewed when it has ended", 40, renew, -10, 0},
		{"the audit ends", 10, end, long - 10, 1},

		{"rules change", 0, l.RulesChanged, limit, 1},
		{"their audit begins", 0, begin, limit, 1},
		{"it ends just before the lease", limit - 1, end, long - 99, 2},

		{"rules change", 0, l.RulesChanged, limit, 2},
		{"nothing is to be carried", 0, set(0), 0, 2},
		{"the audit begins", limit, begin, 0, 2},
		{"it ends, too late for a lease", limit, end, 0, 2},
		{"the lease is renewed", 0, renew, long, 2},

		{"nothing is to be carried", 0, set(0), 0, 2},
		{"rules change", 0, l.RulesChanged, 0, 2},
		{"the audit begins", 0, begin, 0, 2},
		{"it finds that packets may be carried again", limit + 10, renew, -10, 2},
		{"it ends, too late for a lease, but there was none", 0, end, long, 2},

		{"the daemon ends", 0, set(0), 0, 2},
		{"rules change afterwards", 0, l.RulesChanged, 0, 2},
	} {
		p.now += step.after
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		lasts := int(p.deadline) - int(p.now)
		if p.deadline == 0 {
			lasts = 0
		}
		if lasts != step.lasts || resumed != step.resumed {
			t.Errorf("step %d: %s: the lease lasts %d longer, want %d; it was resumed %d times, want %d", i, step.what, lasts, step.lasts, resumed, step.resumed)
		}
	}
}
