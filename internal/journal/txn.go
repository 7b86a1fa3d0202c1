package journal

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
)

// Tx is a transaction that is being written.
type Tx struct {
	j  *Journal
	id int
}

// Begin begins a transaction. With a lease of more than 0 it is a trial: it is
// to be undone when the lease ends, unless it is confirmed.
func (j *Journal) Begin(lease time.Duration) (*Tx, error) { return j.begin(lease, TrialLease) }

// BeginProof begins a transaction that is undone in any case: when its lease
// ends, if nobody does before. With a lease of 0 it is as any other one.
func (j *Journal) BeginProof(lease time.Duration) (*Tx, error) { return j.begin(lease, ProofLease) }

func (j *Journal) begin(lease time.Duration, kind LeaseKind) (*Tx, error) {
	id, _ := j.h.next()
	b := &beginRecord{
		Txn: id, Time: time.Now(), Boot: j.boot,
		User: j.options.User, Command: j.options.Command, Version: j.options.Version,
		Sight: j.sight.Name(),
	}
	if lease > 0 {
		now, err := host.SinceBootAsleep()
		if err != nil {
			return nil, err
		}
		b.Lease = &Lease{Length: lease, Until: now + lease, Kind: kind}
	}
	if err := j.add(record{Begin: b}); err != nil {
		return nil, err
	}
	return &Tx{j, id}, nil
}

// ID is the number of the transaction.
func (t *Tx) ID() int { return t.id }

// End says that the transaction has written all that it wanted.
func (t *Tx) End() error { return t.j.add(record{End: &endRecord{t.id}}) }

// errIgnored is wrapped by the error of a write that the kernel took, and that
// did not change what it shows.
var errIgnored = errors.New("the machine did not take it")

// Set writes a setting: it records the old value and the new one, writes, and reads
// back. Where the setting holds the value already, nothing is written, and the entry
// is nil. On an error the old value stands again, or else the error says so and
// the entry stays open for [Journal.Undo].
func (t *Tx) Set(knob string, w setting.Write) (e *Entry, err error) {
	if err := t.j.checkOpen(w.Setting); err != nil {
		return nil, err
	}
	if err := t.j.finishRestoresFor(w.Setting); err != nil {
		return nil, err
	}
	err = t.j.withEntered(w.Setting, func() error {
		e, err = t.setEntered(knob, w)
		return err
	})
	return e, err
}

func (t *Tx) setEntered(knob string, w setting.Write) (*Entry, error) {
	j := t.j
	old, err := j.settings.Read(w.Setting)
	if err != nil {
		return nil, err
	}
	if j.settings.Equivalent(w.Setting, w.Value, old) {
		return nil, nil
	}
	before, err := j.snapshotSideEffects(w.Setting)
	if err != nil {
		return nil, err
	}
	_, id := j.h.next()
	j.options.OnPoint(PointRead)
	err = j.recordIntent(&intentRecord{Txn: t.id, Entry: id, Knob: knob, Setting: w.Setting, Old: old, New: w.Value, SideEffects: before})
	if err != nil {
		return nil, fmt.Errorf("%w; nothing was written", err)
	}
	e := j.h.entry(id)
	j.options.OnPoint(PointRecorded)
	err = j.settings.Replace(w.Setting, old, w.Value)
	if errors.Is(err, setting.ErrChanged) {
		return nil, errors.Join(err, j.close(e, Failed, err.Error()))
	}
	if err != nil {
		return nil, j.rollback(e, nil, err)
	}
	j.options.OnPoint(PointWritten)
	if found, err := j.readBack(e); err != nil {
		return nil, j.rollback(e, found, err)
	}
	j.options.OnPoint(PointMarked)
	return e, nil
}

// recordIntent makes durable what is about to be written, if there is room left to
// undo it too.
func (j *Journal) recordIntent(i *intentRecord) error {
	if err := j.log.reserve(); err != nil {
		return fmt.Errorf("keep room in the journal for undoing it: %w", err)
	}
	return j.add(record{Intent: i})
}

// readBack reads what the machine made of a write, and records that. It
// gives what was read, if anything.
func (j *Journal) readBack(e *Entry) (*setting.Value, error) {
	found, err := j.settings.Read(e.Setting)
	if err != nil {
		return nil, err
	}
	if !j.settings.Matches(e.Setting, e.New, found) {
		return &found, fmt.Errorf("write %s: %w: asked for %q, it shows %q", e.Setting, errIgnored, e.New, found)
	}
	changed, err := j.changedSideEffects(e)
	if err != nil {
		return &found, err
	}
	return &found, j.add(record{Done: &doneRecord{Entry: e.ID, Readback: found, SideEffects: changed}})
}

// rollback brings the old value back after a write that went wrong, and gives
// the error with what became of that. What was found directly after the write is
// what came of that, unless its kind writes exactly what is asked; another value since
// is somebody else's, and stands.
func (j *Journal) rollback(e *Entry, found *setting.Value, why error) error {
	state := Failed
	err := j.settings.Sweep(e.Setting)
	exact := j.settings.Replaces(e.Setting)
	if err == nil && (found != nil || exact) {
		var now setting.Value
		if now, err = j.settings.Read(e.Setting); err == nil && (exact || !now.Equal(*found)) && !j.explains(e, now) {
			err = &ConflictError{Entry: e, Now: now}
		}
	}
	if err == nil {
		err = j.restoreTo(e, false, true, false)
	}
	if errors.Is(err, host.ErrGone) {
		state, err = Vanished, nil
	}
	if err != nil {
		return fmt.Errorf("%w; bringing the old value back went wrong too, \"venturi undo %d\" tries again: %w", why, e.Txn, err)
	}
	if err := j.close(e, state, why.Error()); err != nil {
		return fmt.Errorf("%w; the old value stands again, but that is not recorded: %w", why, err)
	}
	return why
}

// Revert undoes writes of this transaction that had no effect, and closes them
// as failed.
func (t *Tx) Revert(entries []*Entry, why string) error {
	outcomes := t.j.undo(slices.DeleteFunc(slices.Clone(entries), func(e *Entry) bool { return !e.State.Open() }), UndoOptions{}, Failed, why)
	var failed []error
	for _, o := range outcomes {
		if o.Err != nil {
			failed = append(failed, o.Err)
		}
	}
	return errors.Join(failed...)
}

// Toggle makes an entry's setting hold the old value, or with on true the new one
// again, with what belongs to that in the side effects. The entry stays as it
// is: whichever value stands when the process ends, it is known to be ours.
// Errors: a *[ConflictError]; the machine did not take the value.
func (t *Tx) Toggle(e *Entry, on bool) error {
	j := t.j
	if e.State != Applied {
		return fmt.Errorf("toggle %s: it is %s", e.Setting, e.State)
	}
	current, err := j.settings.Read(e.Setting)
	if err != nil {
		return err
	}
	if current.Equal(e.valueFor(on)) && e.restore == nil {
		return nil
	}
	if !j.explains(e, current) {
		return fmt.Errorf("%s: %w", e.Setting, &ConflictError{Entry: e, Now: current})
	}
	return j.restore(e, on)
}
