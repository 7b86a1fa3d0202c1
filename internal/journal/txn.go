package journal

import (
	"errors"
	"fmt"
	"time"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/machine"
)

// Tx is a transaction that is being written.
type Tx struct {
	j  *Journal
	id int
}

// Begin begins a transaction. With a lease of more than 0 it is a trial: it is
// to be undone when the lease ends, unless it is confirmed.
func (j *Journal) Begin(lease time.Duration) (*Tx, error) {
	id, _ := j.h.next()
	b := &begin{
		Txn: id, Time: time.Now(), Boot: j.options.Boot,
		Who: j.options.Who, Command: j.options.Command, Version: j.options.Version,
	}
	if lease > 0 {
		now, err := machine.SinceBootAsleep()
		if err != nil {
			return nil, err
		}
		b.Lease = &Lease{Length: lease, Until: now + lease}
	}
	if err := j.add(record{Begin: b}); err != nil {
		return nil, err
	}
	return &Tx{j, id}, nil
}

// ID is the number of the transaction.
func (t *Tx) ID() int { return t.id }

// End says that the transaction has written all that it wanted.
func (t *Tx) End() error { return t.j.add(record{End: &end{t.id}}) }

// ErrIgnored is wrapped by the error of a write that the kernel took, and that
// did not change what it shows.
var ErrIgnored = errors.New("the machine did not take it")

// Set writes a cell: it records the old value and the new one, writes, and reads
// back. Where the cell holds the value already, nothing is written, and the entry
// is nil. On an error the old value stands again, or else the error says so and
// the entry stays open for [Journal.Undo].
func (t *Tx) Set(knob string, w change.Write) (*Entry, error) {
	j := t.j
	old, err := j.cells.Read(w.Cell)
	if err != nil {
		return nil, err
	}
	if j.cells.Alike(w.Cell, w.Value, old) {
		return nil, nil
	}
	before, err := j.around(w.Cell)
	if err != nil {
		return nil, err
	}
	_, id := j.h.next()
	j.options.At(Read)
	err = j.add(record{Intent: &intent{Txn: t.id, Entry: id, Knob: knob, Cell: w.Cell, Old: old, New: w.Value, Around: before}})
	if err != nil {
		return nil, fmt.Errorf("%w; nothing was written", err)
	}
	e := j.h.entry(id)
	j.options.At(Recorded)
	if err := j.cells.Write(w.Cell, w.Value); err != nil {
		return nil, j.giveBack(e, err)
	}
	j.options.At(Written)
	if err := j.mark(e); err != nil {
		return nil, j.giveBack(e, err)
	}
	j.options.At(Marked)
	return e, nil
}

// mark reads what the machine made of a write, and records that.
func (j *Journal) mark(e *Entry) error {
	found, err := j.cells.Read(e.Cell)
	if err != nil {
		return err
	}
	if !j.cells.Alike(e.Cell, e.New, found) {
		return fmt.Errorf("write %s: %w: asked for %q, it shows %q", e.Cell, ErrIgnored, e.New, found)
	}
	now, err := j.readAll(cellsOf(e.before))
	if err != nil {
		return err
	}
	return j.add(record{Done: &done{Entry: e.ID, Found: found, Around: changedOf(e.before, now)}})
}

// giveBack brings the old value back after a write that went wrong, and gives
// the error with what became of that.
func (j *Journal) giveBack(e *Entry, why error) error {
	now, err := j.readAll(cellsOf(e.before))
	if err == nil {
		err = j.restore(e.Cell, e.Old, surroundings{before: e.before, after: now, now: now})
	}
	if err == nil {
		err = j.add(record{Closed: &closed{Entry: e.ID, State: Failed, Time: time.Now(), Why: why.Error()}})
	}
	if err != nil {
		return fmt.Errorf("%w; bringing the old value back went wrong too, \"venturi undo %d\" tries again: %w", why, e.Txn, err)
	}
	return why
}

// Revert undoes writes of this transaction that had no effect, and closes them
// as failed.
func (t *Tx) Revert(entries []*Entry, why string) error {
	outcomes := t.j.undo(entries, How{}, Failed, why)
	var failed []error
	for _, o := range outcomes {
		if o.Err != nil {
			failed = append(failed, o.Err)
		}
	}
	return errors.Join(failed...)
}

// Swing writes the new value of an entry once more, or with on false the old
// one. Both are on disk, so that nothing needs to be recorded: whichever stands
// when the process ends, it is known to be ours.
func (t *Tx) Swing(e *Entry, on bool) error {
	j := t.j
	if e.State != Done {
		return fmt.Errorf("swing %s: it is %s", e.Cell, e.State)
	}
	current, err := j.cells.Read(e.Cell)
	if err != nil {
		return err
	}
	if !current.Equal(*e.Found) && !current.Equal(e.Old) {
		return fmt.Errorf("%s: %w", e.Cell, &ConflictError{Entry: e, Now: current})
	}
	if !on {
		now, err := j.readAll(cellsOf(e.before))
		if err != nil {
			return err
		}
		return j.restore(e.Cell, e.Old, surroundings{before: e.before, after: e.after, now: now})
	}
	if current.Equal(*e.Found) {
		return nil
	}
	if err := j.cells.Write(e.Cell, *e.Found); err != nil {
		return err
	}
	if current, err = j.cells.Read(e.Cell); err != nil {
		return err
	}
	if !current.Equal(*e.Found) {
		return fmt.Errorf("write %s: %w: wrote %q, it shows %q", e.Cell, ErrIgnored, *e.Found, current)
	}
	return nil
}
