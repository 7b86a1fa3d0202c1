package journal

import (
	"errors"
	"fmt"
	"os"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
)

// turnTo makes an entry's cell hold its old value, or with on its new one,
// exactly, and puts right what that write, and the one that it takes back,
// changed in the cells around. Tried: a write in doubt is known to have been
// tried, whatever its cell shows. Should the process end in the midst of it,
// another one can begin again.
func (j *Journal) turnTo(e *Entry, on, tried bool) error {
	return j.near(e.Cell, func() error { return j.turnNear(e, on, tried) })
}

// near runs fn while cells of the same device as this one are reached faster.
func (j *Journal) near(cell setting.Cell, fn func() error) error {
	far := j.cells
	defer func() { j.cells = far }()
	return far.Near(cell.Place, func(c *setting.Cells) error {
		j.cells = c
		return fn()
	})
}

func (j *Journal) turnNear(e *Entry, on, tried bool) error {
	current, err := j.cells.Read(e.Cell)
	if err != nil {
		return err
	}
	if len(e.around) > 0 {
		if err := j.beginTurn(e, current, on, tried); err != nil {
			return err
		}
	}
	j.options.At(Undoing)
	wants := []Kept{{e.Cell, e.side(on)}}
	for _, k := range e.around {
		if want := j.want(e, k, on); want.Present {
			wants = append(wants, Kept{k.cell, want})
		}
	}
	if err := j.settle(wants); err != nil {
		return err
	}
	j.options.At(Restored)
	return nil
}

// turn turns an entry that stays open.
func (j *Journal) turn(e *Entry, on bool) error {
	if err := j.turnTo(e, on, false); err != nil {
		return err
	}
	if e.turn == nil {
		return nil
	}
	return j.add(record{Turned: &turned{e.ID}})
}

// beginTurn makes durable what the cells around hold. If a process was killed in
// the same turn and has written the cell already, what it recorded holds.
func (j *Journal) beginTurn(e *Entry, current setting.Value, on, tried bool) error {
	halfway := e.turn != nil && current.Equal(e.side(e.turn.On)) // it may have reset the cells around
	if halfway && e.turn.On == on {
		return nil
	}
	t := &turn{Entry: e.ID, On: on, Wrote: tried || e.State == InDoubt && !current.Equal(e.first())}
	for _, k := range e.around {
		now, err := j.read(k.cell)
		if err != nil {
			return err
		}
		if halfway {
			now = j.last(e, k)
		}
		if !now.Equal(k.left()) {
			t.Around = append(t.Around, Kept{k.cell, now})
		}
	}
	return j.add(record{Turn: t})
}

// last is what a cell around held before the turn that was begun last.
func (j *Journal) last(e *Entry, k *aside) setting.Value {
	for _, had := range e.turn.Around {
		if had.Cell.ID() == k.id {
			return had.Value
		}
	}
	return k.left()
}

// want is what a cell around shall hold after a turn that was begun. What the
// write changed is turned with it; what somebody did since, or a later write,
// stays.
func (j *Journal) want(e *Entry, k *aside, on bool) setting.Value {
	last, from, there := j.last(e, k), k.left(), k.before
	if on {
		from, there = there, from
	}
	above := j.h.above(e, k.id)
	switch {
	case j.otherBoot(e) && !j.cells.Lasts(k.cell), !there.Present:
		return setting.Value{} // there is no such cell then
	case above != nil && !last.Present && !from.Present:
		return above.made(k.id) // it went away with the turn before
	case above != nil:
		return last
	case !on && e.State == InDoubt && e.turn.Wrote:
		return k.before // what the write changed is not known: all that is other now
	case last.Equal(from):
		return there
	}
	return last
}

// settle makes cells hold values, byte for byte, in their order, and again where
// writing one has changed another. The first is the one that it is about.
func (j *Journal) settle(wants []Kept) error {
	const passes = 4
	var failed error
	for range passes {
		failed = nil
		calm := true
		for i, w := range wants {
			wrote, err := j.exactly(w.Cell, w.Value)
			if i > 0 && err != nil && missing(err) {
				continue // a cell around that is not there with this value, or that went away
			}
			failed = errors.Join(failed, err)
			calm = calm && !wrote
		}
		if calm {
			break
		}
	}
	return failed
}

// exactly makes a cell hold a value, byte for byte, if it does not.
func (j *Journal) exactly(cell setting.Cell, want setting.Value) (wrote bool, err error) {
	now, err := j.cells.Read(cell)
	if err != nil && !missing(err) {
		return false, err
	}
	if err == nil && now.Equal(want) {
		return false, nil
	}
	if err := j.cells.Write(cell, want); err != nil {
		return true, err
	}
	if now, err = j.cells.Read(cell); err != nil {
		return true, err
	}
	if !now.Equal(want) {
		return true, fmt.Errorf("write %s: %w: wrote %q, it shows %q", cell, ErrIgnored, want, now)
	}
	return true, nil
}

// missing tells whether an error of reading a cell says that there is no such
// value.
func missing(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, host.ErrGone) || errors.Is(err, errors.ErrUnsupported)
}

// read reads a cell around another one. What does not exist is absent.
func (j *Journal) read(cell setting.Cell) (setting.Value, error) {
	v, err := j.cells.Read(cell)
	if err != nil && missing(err) {
		return setting.Value{}, nil
	}
	return v, err
}

// around reads what a write to a cell may change too.
func (j *Journal) around(cell setting.Cell) ([]Kept, error) {
	cells, err := j.cells.Around(cell)
	if err != nil {
		return nil, fmt.Errorf("list what else changes with %s: %w", cell, err)
	}
	kept := make([]Kept, 0, len(cells))
	for _, c := range cells {
		v, err := j.read(c)
		if err != nil {
			return nil, err
		}
		kept = append(kept, Kept{c, v})
	}
	return kept, nil
}

// changedAround reads what a write changed around its cell, and what came into
// being there by it.
func (j *Journal) changedAround(e *Entry) ([]Kept, error) {
	now, err := j.around(e.Cell)
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{}
	var changed []Kept
	for _, k := range now {
		id := k.Cell.ID()
		listed[id] = true
		var before setting.Value
		if known := e.asideOf(id); known != nil {
			before = known.before
		}
		if !k.Value.Equal(before) {
			changed = append(changed, k)
		}
	}
	for _, k := range e.around { // one that is not listed any more went away
		if listed[k.id] || !k.before.Present {
			continue
		}
		v, err := j.read(k.cell)
		if err != nil {
			return nil, err
		}
		if !v.Equal(k.before) {
			changed = append(changed, Kept{k.cell, v})
		}
	}
	return changed, nil
}
