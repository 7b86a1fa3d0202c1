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

// Whole goes through all flows, and says in how many turns and how many they were.
func (s *sweep) Whole(tick uint32, flush bool, lifetime map[uint8]uint32) (turns, seen int, err error) {
	s.start()
	s.flush = flush
	for protocol, seconds := range lifetime {
		s.lifetime[protocol] = seconds
	}
	for done := false; !done && err == nil; turns++ {
		done, err = s.turn(tick)
	}
	return turns, s.seen, err
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
