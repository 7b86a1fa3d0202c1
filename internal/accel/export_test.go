package accel

import (
	"context"
	"errors"

	"github.com/venturi-net/venturi/internal/bpf"
	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/machine"
)

// What tests look at from outside: the fast path's own tests need labs, which are
// built with it.

const (
	Idle       = idle
	Soon       = soon
	Hurried    = hurried
	Unproven   = unproven
	SweepEvery = sweepEvery
	SweepTurn  = sweepTurn
)

var (
	Limit = limit
	Due   = due
)

type (
	Sweep = sweep
	Flows = flows
)

func NewSweep(fast *bpf.Fast, track *change.Conntrack) *Sweep { return newSweep(fast, track) }

// Whole goes through all flows, as the first sweep, and says in how many turns and how
// many they were.
func (s *sweep) Whole(tick uint32, flush bool, silent map[uint8]uint32) (turns, seen int, err error) {
	s.began = 0
	s.start(tick)
	s.flush = flush
	for protocol, seconds := range silent {
		s.lifetimes[protocol] = lifetime{seconds, seconds}
	}
	for done := false; !done && err == nil; turns++ {
		done, err = s.turn(tick)
	}
	return turns, s.seen, err
}

// Look looks at a flow of TCP in a sweep that began in some tick, and says for how many
// seconds its connection is to live then; 0: as long as it does.
func (s *sweep) Look(began, tick uint32, v bpf.Flow, limit int32, silent, least uint32) (alive uint32, forgotten bool) {
	s.before, s.began, s.limit, s.old, s.refresh = s.began, began, limit, nil, nil
	s.lifetimes[protoTCP] = lifetime{silent, least}
	s.judge(bpf.FlowKey{TenantProto: protoTCP}, v, tick)
	for _, u := range s.refresh {
		alive = uint32(u.Alive.Seconds())
	}
	return alive, len(s.old) > 0
}

// Lifetimes are those of connections of a protocol.
func Lifetimes(protocol uint8) (silent, least uint32, err error) {
	all, err := lifetimes()
	return all[protocol].silent, all[protocol].least, err
}

func (s *sweep) Forget(keys []bpf.FlowKey) error { return s.forget(keys) }

func NewFlows(fast *bpf.Fast, tenants []uint32) *Flows {
	f := newFlows(fast, nil)
	f.of(tenants)
	return f
}

func (f *flows) Ended(all []change.Connection, lost bool) error { return f.ended(all, lost) }

// Lost: everything is to be forgotten, and that is said.
func (f *flows) Lost() (flush, said bool) { return f.flush.Load(), len(f.lost) > 0 }

func (f *flows) Sweeps(ctx context.Context, track *change.Conntrack) error {
	return f.sweeps(ctx, track)
}

// NewTables are tables that nothing is in yet.
func NewTables(fast *bpf.Fast) *tables { return newTables(fast, 1) }

func (t *tables) Sync(w machine.Ways) error { return t.sync(w) }

// Ask has the pods of a machine speak, those that are known and those that are not.
func Ask(m *change.Namespace, ways machine.Ways) error {
	d := &daemon{space: m, ways: ways}
	return errors.Join(d.askAll(), d.askUnplaced())
}
