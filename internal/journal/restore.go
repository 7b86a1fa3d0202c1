package journal

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
)

// restoreTo makes an entry's setting hold its old value, or with on its new one,
// exactly, and puts right what that write, and the one that it takes back,
// changed in the side effects. Tried: a write in doubt is known to have been
// tried, whatever its setting shows. Force: over somebody else's value too. Should the
// process end in the midst of it, another one can begin again.
func (j *Journal) restoreTo(e *Entry, on, tried, force bool) error {
	return j.withEntered(e.Setting, func() error { return j.restoreEntered(e, on, tried, force) })
}

// withEntered runs fn while settings of the same device as this one are reached faster.
func (j *Journal) withEntered(s setting.Setting, fn func() error) error {
	far := j.settings
	defer func() { j.settings = far }()
	return far.WithEntered(s.Scope, func(near *setting.Settings) error {
		j.settings = near
		return fn()
	})
}

func (j *Journal) restoreEntered(e *Entry, on, tried, force bool) error {
	current, err := j.settings.Read(e.Setting)
	if err != nil {
		return err
	}
	expected := &current
	if force {
		expected = nil
	} else if j.settings.Replaces(e.Setting) && !j.explains(e, current) { // changed since the caller looked
		return &ConflictError{Entry: e, Now: current}
	}
	if len(e.sideEffects) > 0 {
		if err := j.beginRestore(e, current, on, tried); err != nil {
			return err
		}
	}
	j.options.OnPoint(PointUndoing)
	wants := []Snapshot{{e.Setting, e.valueFor(on)}}
	for _, k := range e.sideEffects {
		if want := j.targetValue(e, k, on); want.Present {
			wants = append(wants, Snapshot{k.setting, want})
		}
	}
	if err := j.settle(wants, expected); err != nil {
		return err
	}
	j.options.OnPoint(PointRestored)
	return nil
}

// restore restores an entry that stays open.
func (j *Journal) restore(e *Entry, on bool) error {
	if err := j.restoreTo(e, on, false, false); err != nil {
		return err
	}
	if e.restore == nil {
		return nil
	}
	return j.add(record{Restored: &restoredRecord{e.ID}})
}

// beginRestore makes durable what the side effects hold. If a process was killed in
// the same restore and has written the setting already, what it recorded holds.
func (j *Journal) beginRestore(e *Entry, current setting.Value, on, tried bool) error {
	halfway := e.restore != nil && current.Equal(e.valueFor(e.restore.On)) // it may have reset the side effects
	if halfway && e.restore.On == on {
		return nil
	}
	t := &restoreRecord{Entry: e.ID, On: on, Attempted: tried || e.State == InDoubt && !current.Equal(e.original())}
	for _, k := range e.sideEffects {
		now, err := j.readOptional(k.setting)
		if err != nil {
			return err
		}
		if halfway {
			now = j.recordedValue(e, k)
		}
		if !now.Equal(k.result()) {
			t.SideEffects = append(t.SideEffects, Snapshot{k.setting, now})
		}
	}
	return j.add(record{Restore: t})
}

// recordedValue is what a side effect held before the restore that was begun last.
func (j *Journal) recordedValue(e *Entry, k *sideEffect) setting.Value {
	for _, had := range e.restore.SideEffects {
		if had.Setting.ID() == k.id {
			return had.Value
		}
	}
	return k.result()
}

// sideEffectState is what is known of a side effect whose entry is restored.
type sideEffectState int

const (
	absent         sideEffectState = iota // it does not exist at the value to be restored, or ended with an earlier boot
	lostByRestore                         // a later write changed it, and the restore before removed it
	changedByLater                        // a later write changed it: its value stays
	unrecorded                            // the write was tried, and what it changed is not known
	asLeft                                // it holds what the write left
	changedByOther                        // somebody else changed it since: that value stays
)

// stateOf says which state a side effect is in. From is what the write, or the one that
// takes it back, left of it, to what it is to become.
func (j *Journal) stateOf(e *Entry, k *sideEffect, on bool, from, to setting.Value) sideEffectState {
	recorded, later := j.recordedValue(e, k), j.h.nextChange(e, k.id) != nil
	switch {
	case j.otherBoot(e) && !j.settings.Persistent(k.setting), !to.Present:
		return absent
	case later && !recorded.Present && !from.Present:
		return lostByRestore
	case later:
		return changedByLater
	case !on && e.State == InDoubt && e.restore.Attempted:
		return unrecorded
	case recorded.Equal(from):
		return asLeft
	}
	return changedByOther
}

// targetValue is what a side effect shall hold after a restore that was begun. What the
// write changed is restored with it; what somebody did since, or a later write, stays.
func (j *Journal) targetValue(e *Entry, k *sideEffect, on bool) setting.Value {
	from, to := k.result(), k.old
	if on {
		from, to = to, from
	}
	switch j.stateOf(e, k, on, from, to) {
	case absent:
		return setting.Value{}
	case lostByRestore:
		return j.h.nextChange(e, k.id).resultOf(k.id)
	case unrecorded:
		return k.old
	case asLeft:
		return to
	case changedByLater, changedByOther:
	}
	return j.recordedValue(e, k)
}

// settle makes settings hold values, byte for byte, in their order, and again where
// writing one has changed another. The first is the one that it is about, and holds what
// is expected; nil: whatever it holds is replaced.
func (j *Journal) settle(wants []Snapshot, expected *setting.Value) error {
	const passes = 4
	var failed error
	for pass := range passes {
		failed = nil
		calm := true
		for i, w := range wants {
			once := j.settings.Replaces(w.Setting) // what else it holds after that, somebody else wrote
			if once && pass > 0 {
				continue
			}
			wrote, err := j.writeExact(w.Setting, expected, w.Value)
			expected = nil
			if i > 0 && err != nil && isMissing(err) {
				continue // a side effect that is not there with this value, or that went away
			}
			if once && err != nil {
				return err // whose value stands, the next undo finds out
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

// writeExact makes a setting hold a value, byte for byte, if it does not. Where its kind
// can tell, it replaces only what is expected; nil: what the setting holds now.
func (j *Journal) writeExact(s setting.Setting, expected *setting.Value, want setting.Value) (wrote bool, err error) {
	now, err := j.settings.Read(s)
	if err != nil && !isMissing(err) {
		return false, err
	}
	if err == nil && now.Equal(want) {
		return false, nil
	}
	if expected == nil {
		expected = &now
	}
	if err := j.settings.Replace(s, *expected, want); err != nil {
		return true, err
	}
	if now, err = j.settings.Read(s); err != nil {
		return true, err
	}
	if !now.Equal(want) {
		return true, fmt.Errorf("write %s: %w: wrote %q, it shows %q", s, errIgnored, want, now)
	}
	return true, nil
}

// isMissing tells whether an error of reading a setting says that there is no such
// value.
func isMissing(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, host.ErrGone) || errors.Is(err, errors.ErrUnsupported)
}

// isHidden tells whether an error of reading a setting says that its device does not show
// it now: it is down, or does not answer. The user may give up such a value; whatever else
// is in the way of reading one may be mended.
func isHidden(err error) bool {
	return errors.As(err, new(*host.InactiveError)) || errors.Is(err, unix.ENODEV)
}

// readOptional reads a setting that a write to another one may change. What does not exist is absent.
func (r *reader) readOptional(s setting.Setting) (setting.Value, error) {
	v, err := r.settings.Read(s)
	if err != nil && isMissing(err) {
		return setting.Value{}, nil
	}
	return v, err
}

// snapshotSideEffects reads what a write to a setting may change too.
func (j *Journal) snapshotSideEffects(s setting.Setting) ([]Snapshot, error) {
	settings, err := j.settings.SideEffects(s)
	if err != nil {
		return nil, fmt.Errorf("list what else changes with %s: %w", s, err)
	}
	kept := make([]Snapshot, 0, len(settings))
	for _, s := range settings {
		v, err := j.readOptional(s)
		if err != nil {
			return nil, err
		}
		kept = append(kept, Snapshot{s, v})
	}
	return kept, nil
}

// changedSideEffects reads what a write changed around its setting, and what came into
// being there by it.
func (j *Journal) changedSideEffects(e *Entry) ([]Snapshot, error) {
	now, err := j.snapshotSideEffects(e.Setting)
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{}
	var changed []Snapshot
	for _, k := range now {
		id := k.Setting.ID()
		listed[id] = true
		var before setting.Value
		if known := e.sideEffect(id); known != nil {
			before = known.old
		}
		if !k.Value.Equal(before) {
			changed = append(changed, k)
		}
	}
	for _, k := range e.sideEffects { // one that is not listed any more went away
		if listed[k.id] || !k.old.Present {
			continue
		}
		v, err := j.readOptional(k.setting)
		if err != nil {
			return nil, err
		}
		if !v.Equal(k.old) {
			changed = append(changed, Snapshot{k.setting, v})
		}
	}
	return changed, nil
}
