package experiment

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/venturi-net/venturi/result"
)

// MeasureOnce runs one series of every cell, in random order and on fresh sockets, and
// gives what was measured as a record of its own. It can be called any number of
// times, and not beside [Run.Do]; Rounds of the plan are those of each call, and
// nothing is handed to Write. Arms that cannot be measured are told of in the
// record's warnings, and are tried anew the next time. Error: the agents cannot be
// spoken with, or ctx ended.
func (r *Run) MeasureOnce(ctx context.Context) (*result.Record, error) {
	if r.rng == nil {
		r.rng = rand.New(rand.NewPCG(r.Plan.Seed, 0x6f6e6365))
		r.ports.next = r.rng.IntN(portSpan / 2)
		r.Write = func(result.Line) error { return nil }
	}
	r.rec, r.start = &result.Record{Plan: *r.Plan}, time.Now()
	r.disabled, r.exitAwaited = map[armCell]bool{}, map[int]bool{}
	for _, i := range r.rng.Perm(len(r.Plan.Cells)) {
		err := r.cell(ctx, 0, r.Plan.Cells[i])
		if err != nil && !errors.Is(err, errNoBaseline) {
			return r.rec, err
		}
	}
	return r.rec, ctx.Err()
}
