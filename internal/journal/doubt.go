package journal

import (
	"slices"

	"github.com/venturi-net/venturi/internal/setting"
)

// A write is in doubt whose process was killed between its record and its mark.
// What its cell holds tells whether it happened. If it did, what is other around
// the cell is taken for its doing, which it is but for what somebody else has
// changed there since.

// settleDoubts looks, as soon as somebody opens the journal for changing, what
// writes in doubt have done, and records that. It changes nothing, and ends the
// time in which what somebody else changes around a cell is taken for a side effect. What
// cannot be read or recorded stays in doubt, and undo looks again.
func (j *Journal) settleDoubts() {
	for i, e := range j.h.entries {
		if e.State != InDoubt || j.otherBoot(e) || !e.asRecorded() {
			continue
		}
		mine := func(id string) bool { return e.id == id || e.asideOf(id) != nil }
		if slices.ContainsFunc(j.h.entries[i+1:], func(l *Entry) bool { return l.touches(mine) }) {
			continue // what stands there now is not what this one left
		}
		_ = j.near(e.Cell, func() error { return j.settleDoubt(e) })
	}
}

// asRecorded tells whether nothing was done with the entry since its record.
func (e *Entry) asRecorded() bool {
	return e.turn == nil && len(e.once) == 0 && !slices.ContainsFunc(e.around, func(k *aside) bool { return k.after != nil })
}

func (j *Journal) settleDoubt(e *Entry) error {
	current, err := j.cells.Read(e.Cell)
	if err != nil {
		return err
	}
	still := current.Equal(e.Old)
	if !still && !j.wrote(e, current) || still && len(e.around) == 0 {
		return nil
	}
	changed, err := j.changedAround(e)
	switch {
	case err != nil:
		return err
	case !still:
		return j.add(record{Done: &done{Entry: e.ID, Found: current, Around: changed}})
	case len(changed) > 0:
		return nil // [Journal.unexplained]
	}
	return j.closeAll([]*Entry{e}, Failed, "whoever was to write it was killed before that")
}

// unexplained is a cell around a write in doubt that is not as it was, although
// the write's own cell is: somebody else changed it since, or a driver that
// refused the write reset it all the same. Nil: there is none.
func (j *Journal) unexplained(e *Entry, current setting.Value) *Kept {
	if e.State != InDoubt || e.turn != nil || !current.Equal(e.first()) {
		return nil
	}
	for _, k := range e.around {
		now, err := j.read(k.cell)
		if err == nil && k.before.Present && !now.Equal(k.left()) && j.h.above(e, k.id) == nil {
			return &Kept{k.cell, now}
		}
	}
	return nil
}
