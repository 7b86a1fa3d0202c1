package journal

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/verr"
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
	if e.Entry.State == InDoubt {
		return fmt.Sprintf("it is not known whether it was written: it was %q, we were to write %q, it is %q", e.Entry.Old, e.Entry.New, e.Now)
	}
	return fmt.Sprintf("somebody else has changed it: it was %q, we wrote %q, it is %q", e.Entry.Old, e.Entry.written(), e.Now)
}

// Outcome is what became of one entry in an undo.
type Outcome struct {
	Entry *Entry
	Err   error // why it is still open; a *[ConflictError] where somebody else changed the value
}

// Undo undoes all open writes of some transactions, the last first; none named
// means all. Writes of one cell that follow each other are undone in one step,
// to the value before the first. It goes on after an error: an outcome tells it.
// Error: a transaction that does not exist (exit code 2); then nothing was done.
func (j *Journal) Undo(txns []int, how How) ([]Outcome, error) {
	for _, id := range txns {
		if j.h.txn(id) == nil {
			return nil, noTxn("undo", id)
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

func noTxn(what string, id int) error {
	return verr.New(verr.Usage, fmt.Sprintf("cannot %s transaction %d", what, id), "there is none of that number in the journal", "list them with: venturi journal")
}

// undo undoes open entries, which are in the order of their writes, and closes
// them with the state and why.
func (j *Journal) undo(chosen []*Entry, how How, state State, why string) []Outcome {
	var outcomes []Outcome
	var live []*Entry
	for _, e := range chosen {
		if j.otherBoot(e) && !j.cells.Lasts(e.Cell) {
			outcomes = append(outcomes, Outcome{e, j.close(e, Gone, "the machine was started anew since")})
			continue
		}
		live = append(live, e)
	}
	for len(live) > 0 {
		run := j.topRun(live)
		live = slices.DeleteFunc(slices.Clone(live), func(e *Entry) bool { return slices.Contains(run, e) })
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
	if j.h.above(top, top.id) != nil {
		return run
	}
	for _, e := range slices.Backward(chosen[:len(chosen)-1]) {
		if e.id != top.id {
			continue
		}
		if j.h.above(e, e.id) != run[0] || !j.ours(e, run[0].Old) {
			break
		}
		run = slices.Insert(run, 0, e)
	}
	return run
}

// otherBoot tells whether the entry is of an earlier run of the kernel. Where
// that was lost, it is taken to be of this one: looking does no harm.
func (j *Journal) otherBoot(e *Entry) bool {
	t := j.h.txn(e.Txn)
	return t != nil && t.Boot != "" && t.Boot != j.options.Boot
}

func (j *Journal) undoRun(run []*Entry, how How, state State, why string) error {
	top := run[len(run)-1]
	if above := j.h.above(top, top.id); above != nil {
		return j.pass(top, above, how)
	}
	err := j.cells.Sweep(top.Cell)
	if err != nil && !errors.Is(err, change.ErrGone) {
		return err
	}
	current, err := j.cells.Read(top.Cell)
	if errors.Is(err, change.ErrGone) {
		return j.closeAll(run, Gone, err.Error())
	}
	if err != nil {
		return err
	}
	old := run[0].Old
	if !current.Equal(old) && !j.ours(top, current) && !how.Force {
		if how.Leave {
			return j.closeAll(run, Left, fmt.Sprintf("somebody else's %q stands", current))
		}
		return &ConflictError{Entry: top, Now: current}
	}
	// Those beneath hand their old values on first: should the process end in
	// between, the top alone stands for all of them.
	for i, e := range run[:len(run)-1] {
		if err := j.pass(e, run[i+1], how); err != nil {
			return err
		}
	}
	if err := j.turnTo(top, old, false); err != nil {
		return err
	}
	if err := j.close(top, state, why); err != nil {
		return err
	}
	j.options.At(Closed)
	return j.closeAll(run[:len(run)-1], state, why)
}

// pass undoes a write beneath a later one of the same cell: the later one's old
// value becomes that of this one, and the machine is not touched.
func (j *Journal) pass(e, above *Entry, how How) error {
	fits := func(v change.Value) bool { return how.Force || j.ours(e, v) }
	tell, foreign := j.h.chain(e, e.Cell, e.id, fits, e.Old)
	if foreign != nil {
		v, _ := foreign.found(e.id)
		if how.Leave {
			return j.closeAll([]*Entry{e}, Left, fmt.Sprintf("somebody else had changed it to %q", v))
		}
		return &ConflictError{Entry: e, Now: v}
	}
	for _, k := range e.around {
		tell = append(tell, j.passAround(e, k, above)...)
	}
	why := fmt.Sprintf("its old value is now that of transaction %d", above.Txn)
	return j.add(record{Closed: &closed{Entry: e.ID, State: Passed, Time: time.Now(), Why: why, HandOn: tell}})
}

// passAround hands on what a write that is passed changed around its cell: to
// who changed that again, or else to the one above it, who stands for it from
// then on.
func (j *Journal) passAround(e *Entry, k *aside, above *Entry) []handOn {
	left := k.after
	if e.State == InDoubt && left == nil {
		// What it changed was not recorded, but the next that came by has seen it.
		for _, l := range j.h.later(e) {
			if v, known := l.found(k.id); known && !e.wasBefore(above.Old) {
				left = &v
				break
			}
		}
	}
	if left == nil || left.Equal(k.before) {
		return nil
	}
	tell, foreign := j.h.chain(e, k.cell, k.id, left.Equal, k.before)
	if foreign != nil {
		return nil
	}
	if len(tell) > 0 && j.h.entry(tell[len(tell)-1].Entry).changes(k.id) {
		return tell
	}
	upTo := slices.DeleteFunc(tell, func(to handOn) bool { return to.Entry >= above.ID })
	return append(upTo, handOn{Entry: above.ID, Cell: &k.cell, Old: k.before, Left: left})
}

// close says that there is nothing left to undo of an entry whose old value
// stands again, or that is gone; and tells later writes that had found its new
// one.
func (j *Journal) close(e *Entry, state State, why string) error {
	var tell []handOn
	if state == Undone || state == Failed {
		fits := func(v change.Value) bool { return j.wrote(e, v) }
		tell, _ = j.h.chain(e, e.Cell, e.id, fits, e.Old)
		for _, k := range e.around {
			if k.after != nil {
				around, _ := j.h.chain(e, k.cell, k.id, k.after.Equal, k.before)
				tell = append(tell, around...)
			}
		}
	}
	return j.add(record{Closed: &closed{Entry: e.ID, State: state, Time: time.Now(), Why: why, HandOn: tell}})
}

func (j *Journal) closeAll(entries []*Entry, state State, why string) error {
	var records []record
	for _, e := range entries {
		records = append(records, record{Closed: &closed{Entry: e.ID, State: state, Time: time.Now(), Why: why}})
	}
	if len(records) == 0 {
		return nil
	}
	return j.add(records...)
}
