package journal

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/change"
)

// How says what undo does where somebody else has changed a value since.
type How struct {
	Force bool // overwrite it with the old value
	Leave bool // let it stand, and forget the change
}

// ConflictError tells that a cell holds neither what was there before a write
// nor what was written: somebody else changed it since.
type ConflictError struct {
	Entry *Entry
	Now   change.Value
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("somebody else has changed it: it was %q, we wrote %q, it is %q", e.Entry.Old, e.Entry.written(), e.Now)
}

// written is what the entry's write made of the cell, as far as is known.
func (e *Entry) written() change.Value {
	if e.Found != nil {
		return *e.Found
	}
	return e.New
}

// Outcome is what became of one entry in an undo.
type Outcome struct {
	Entry *Entry
	Err   error // why it is still open; a *[ConflictError] where somebody else changed the value
}

// Undo undoes all open writes of some transactions, the last first; none named
// means all. Writes of one cell that follow each other are undone in one step,
// to the value before the first. It goes on after an error: an outcome tells it.
// Error: a transaction that does not exist.
func (j *Journal) Undo(txns []int, how How) ([]Outcome, error) {
	for _, id := range txns {
		if j.h.txn(id) == nil {
			return nil, fmt.Errorf("there is no transaction %d in the journal", id)
		}
	}
	var chosen []*Entry
	for _, e := range j.h.entries {
		if e.State.Open() && (len(txns) == 0 || slices.Contains(txns, e.Txn)) {
			chosen = append(chosen, e)
		}
	}
	return j.undo(chosen, how, Undone, ""), nil
}

// undo undoes entries, which are in the order of their writes, and closes them
// with the state and why.
func (j *Journal) undo(chosen []*Entry, how How, state State, why string) []Outcome {
	var outcomes []Outcome
	for len(chosen) > 0 {
		run := j.topRun(chosen)
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(e *Entry) bool { return slices.Contains(run, e) })
		err := j.undoRun(run, how, state, why)
		for _, e := range slices.Backward(run) {
			outcomes = append(outcomes, Outcome{e, err})
		}
	}
	return outcomes
}

// topRun takes the last of the entries, and those before it that wrote the same
// cell with nobody else's write between them; in the order of their writes.
func (j *Journal) topRun(chosen []*Entry) []*Entry {
	top := chosen[len(chosen)-1]
	run := []*Entry{top}
	if j.h.above(top) != nil {
		return run // another one's write stands on it
	}
	for _, e := range slices.Backward(chosen[:len(chosen)-1]) {
		if e.Cell.ID() != top.Cell.ID() {
			continue
		}
		if j.h.above(e) != run[0] || !j.follows(run[0], e) || e.Txn != top.Txn && j.otherBoot(e) != j.otherBoot(top) {
			break
		}
		run = slices.Insert(run, 0, e)
	}
	return run
}

// follows tells whether a later write found what an earlier one had written.
func (j *Journal) follows(later, earlier *Entry) bool {
	return later.Old.Equal(earlier.written()) || earlier.State == InDoubt &&
		(later.Old.Equal(earlier.Old) || j.cells.Alike(earlier.Cell, earlier.New, later.Old))
}

// otherBoot tells whether the entry is of an earlier run of the kernel. Where
// that was lost, it is taken to be of this one: looking does no harm.
func (j *Journal) otherBoot(e *Entry) bool {
	t := j.h.txn(e.Txn)
	return t != nil && t.Boot != "" && t.Boot != j.options.Boot
}

func (j *Journal) undoRun(run []*Entry, how How, state State, why string) error {
	bottom, top := run[0], run[len(run)-1]
	if j.otherBoot(top) && !j.cells.Lasts(top.Cell) {
		return j.close(run, Gone, "the machine was started anew since")
	}
	if above := j.h.above(top); above != nil {
		return j.pass(top, above)
	}
	if err := j.cells.Sweep(top.Cell); err != nil && !errors.Is(err, change.ErrGone) {
		return err
	}
	current, err := j.cells.Read(top.Cell)
	if errors.Is(err, change.ErrGone) {
		return j.close(run, Gone, err.Error())
	}
	if err != nil {
		return err
	}
	if !current.Equal(bottom.Old) && !j.ours(run, current) && !how.Force {
		if how.Leave {
			return j.close(run, Left, fmt.Sprintf("somebody else's %q stands", current))
		}
		return &ConflictError{Entry: &Entry{Cell: top.Cell, Old: bottom.Old, New: top.New, Found: top.Found}, Now: current}
	}
	s, err := j.surroundings(run, current)
	if err != nil {
		return err
	}
	j.options.At(Undoing)
	if err := j.restore(top.Cell, bottom.Old, s); err != nil {
		return err
	}
	j.options.At(Restored)
	if err := j.passAround(run, s); err != nil {
		return err
	}
	if err := j.close(run, state, why); err != nil {
		return err
	}
	j.options.At(Closed)
	return nil
}

// ours tells whether a cell holds what one of the entries left there: the last
// that is known to have happened, or one after it that may have.
func (j *Journal) ours(run []*Entry, current change.Value) bool {
	for _, e := range slices.Backward(run) {
		if current.Equal(e.written()) || current.Equal(e.Old) {
			return true
		}
		if e.State == Done {
			return false
		}
		if j.cells.Alike(e.Cell, e.New, current) {
			return true
		}
	}
	return false
}

// surroundings puts together what is known of the cells around a run, and makes
// durable what they hold now: after the cell is restored, that is lost.
func (j *Journal) surroundings(run []*Entry, current change.Value) (surroundings, error) {
	var s surroundings
	var ids []int
	for _, e := range run {
		ids = append(ids, e.ID)
		for _, k := range e.before {
			if _, known := keptOf(s.before, k.Cell); !known {
				s.before = append(s.before, k)
			}
		}
	}
	for _, e := range slices.Backward(run) {
		for _, k := range e.after {
			if _, known := keptOf(s.after, k.Cell); !known {
				s.after = append(s.after, k)
			}
		}
	}
	if len(s.before) == 0 {
		return s, nil
	}
	if u := run[len(run)-1].undoing; u != nil && current.Equal(run[0].Old) {
		s.now = u.Around // whoever restored it was killed before these
	} else {
		now, err := j.readAll(cellsOf(s.before))
		if err != nil {
			return s, err
		}
		s.now = now
		if err := j.add(record{Undoing: &undoing{Entries: ids, Found: current, Around: now}}); err != nil {
			return s, err
		}
	}
	if run[len(run)-1].State == InDoubt {
		s.after = s.now // what it changed around it was never recorded: all that is other now
	}
	return s, nil
}

// pass undoes a write beneath a later one of the same cell: the later one's old
// value becomes that of this one, and the machine is not touched.
func (j *Journal) pass(e, above *Entry) error {
	if !j.follows(above, e) {
		return j.close([]*Entry{e}, Left, fmt.Sprintf("somebody else had changed it to %q", above.Old))
	}
	return j.add(
		record{Rebase: &rebase{Entry: above.ID, Old: e.Old}},
		record{Closed: &closed{Entry: e.ID, State: Passed, Time: time.Now(), Why: fmt.Sprintf("its old value is now that of transaction %d", above.Txn)}},
	)
}

// passAround does the same for the cells around a run that later writes own.
func (j *Journal) passAround(run []*Entry, s surroundings) error {
	top := slices.Index(j.h.entries, run[len(run)-1])
	for _, k := range s.before {
		after, changed := keptOf(s.after, k.Cell)
		later := firstOpen(j.h.entries[top+1:], k.Cell)
		if later == nil || !changed || !later.Old.Equal(after) {
			continue
		}
		if err := j.add(record{Rebase: &rebase{Entry: later.ID, Old: k.Value}}); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) close(entries []*Entry, state State, why string) error {
	var records []record
	for _, e := range entries {
		records = append(records, record{Closed: &closed{Entry: e.ID, State: state, Time: time.Now(), Why: why}})
	}
	return j.add(records...)
}
