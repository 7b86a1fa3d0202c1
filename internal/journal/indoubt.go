package journal

import (
	"slices"

	"github.com/venturi-net/venturi/internal/setting"
)

// A write is in doubt whose process was killed between its record and its mark.
// What its setting holds tells whether it happened. If it did, what is other around
// the setting is taken for its doing, which it is but for what somebody else has
// changed there since.

// resolveDoubts looks, as soon as somebody opens the journal for changing, what
// writes in doubt have done, and records that. It changes nothing, and ends the
// time in which what somebody else changes around a setting is taken for a side effect. What
// cannot be read or recorded stays in doubt, and undo looks again.
func (j *Journal) resolveDoubts() {
	for i, e := range j.h.entries {
		if e.State != InDoubt || j.otherBoot(e) || !e.untouched() || j.otherFiles(e) {
			continue
		}
		mine := func(id string) bool { return e.id == id || e.sideEffect(id) != nil }
		if slices.ContainsFunc(j.h.entries[i+1:], func(l *Entry) bool { return l.touches(mine) }) {
			continue // what stands there now is not what this one left
		}
		_ = j.withEntered(e.Setting, func() error { return j.resolveDoubt(e) })
	}
}

// untouched tells whether nothing was done with the entry since its record.
func (e *Entry) untouched() bool {
	return e.restore == nil && len(e.earlierOld) == 0 && !slices.ContainsFunc(e.sideEffects, func(k *sideEffect) bool { return k.new != nil })
}

func (j *Journal) resolveDoubt(e *Entry) error {
	current, err := j.settings.Read(e.Setting)
	if err != nil {
		return err
	}
	still := current.Equal(e.Old)
	if !still && !j.isResult(e, current) || still && len(e.sideEffects) == 0 {
		return nil
	}
	changed, err := j.changedSideEffects(e)
	switch {
	case err != nil:
		return err
	case !still:
		return j.add(record{Done: &doneRecord{Entry: e.ID, Readback: current, SideEffects: changed}})
	case len(changed) > 0:
		return nil // [reader.unexplained]
	}
	return j.closeAll([]*Entry{e}, Failed, "the writer was killed before it wrote the value")
}

// unexplained is a side effect of a write in doubt that is not as it was, although
// the write's own setting is: somebody else changed it since, or a driver that
// refused the write reset it all the same. Nil: there is none.
func (r *reader) unexplained(e *Entry, current setting.Value) *Snapshot {
	if e.State != InDoubt || e.restore != nil || !current.Equal(e.original()) {
		return nil
	}
	for _, k := range e.sideEffects {
		now, err := r.readOptional(k.setting)
		if err == nil && k.old.Present && !now.Equal(k.result()) && r.h.nextChange(e, k.id) == nil {
			return &Snapshot{k.setting, now}
		}
	}
	return nil
}
