package journal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// UndoOptions says what undo does where somebody else has changed a value since.
type UndoOptions struct {
	Force bool // overwrite it with the old value
	Leave bool // let it stand, and forget the change; also where the machine refuses the old value, does not show what stands, or it is out of sight
}

// ConflictError tells that a setting holds neither what was there before a write
// nor what was written: somebody else changed it since.
type ConflictError struct {
	Entry      *Entry
	Now        setting.Value
	SideEffect *Snapshot // a side effect whose value has changed, where it is not known whether the write did that; nil: it is about the entry's own setting
}

func (e *ConflictError) Error() string {
	if e.SideEffect != nil {
		return fmt.Sprintf("it was not written, and still %s is %q now: it is not known whether that came by trying to", e.SideEffect.Setting, e.SideEffect.Value)
	}
	if e.Entry.State == InDoubt {
		return fmt.Sprintf("it is not known whether it was written: it was %q, we were to write %q, it is %q", e.Entry.Old, e.Entry.New, e.Now)
	}
	return fmt.Sprintf("somebody else has changed it: it was %q, we wrote %q, it is %q", e.Entry.Old, e.Entry.result(), e.Now)
}

// Outcome is what became of one entry in an undo.
type Outcome struct {
	Entry *Entry
	Err   error // why it is still open; a *[ConflictError] where somebody else changed the value
}

// Undo undoes all open writes of some transactions, the last first; none named
// means all. Writes of one setting that follow each other are undone in one step,
// to the value before the first. It goes on after an error: an outcome tells it.
// Error: a transaction that does not exist (exit code 2); then nothing was done.
func (j *Journal) Undo(txns []int, how UndoOptions) ([]Outcome, error) {
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
	touched := map[string]bool{}
	for _, e := range chosen {
		e.touches(func(id string) bool { touched[id] = true; return false })
	}
	stuck := j.finishRestores(touched, chosen)
	var outcomes []Outcome
	var free []*Entry
	for _, e := range slices.Backward(chosen) {
		if stuck[e] != nil && how.Leave && !errors.Is(stuck[e], errUnread) {
			outcomes = append(outcomes, Outcome{e, j.closeAll([]*Entry{e}, Abandoned, stuck[e].Error())})
			delete(stuck, e)
		}
	}
	for _, e := range chosen {
		if err := j.blockedBy(e, stuck); err != nil {
			outcomes = append(outcomes, Outcome{e, err})
		} else if e.State.Open() {
			free = append(free, e)
		}
	}
	return append(outcomes, j.undo(free, how, Undone, "")...), nil
}

func noTxn(what string, id int) error {
	return verr.New(verr.Usage, fmt.Sprintf("cannot %s transaction %d", what, id), "there is none of that number in the journal", "list them with: venturi journal")
}

// undo undoes open entries, which are in the order of their writes, and closes
// them with the state and why.
func (j *Journal) undo(chosen []*Entry, how UndoOptions, state EntryState, why string) []Outcome {
	var outcomes []Outcome
	var live []*Entry
	for _, e := range chosen {
		if j.otherBoot(e) && !j.settings.Persistent(e.Setting) {
			err := j.closeRebooted(e, how)
			outcomes = append(outcomes, Outcome{e, err})
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

// closeRebooted closes an entry of an earlier run of the kernel. A container may have a boot id of its own.
func (j *Journal) closeRebooted(e *Entry, how UndoOptions) error {
	if j.unseen(e) {
		return j.leaveUnseen([]*Entry{e}, how, errUnseen)
	}
	return j.closeAll([]*Entry{e}, Vanished, "the machine was rebooted since")
}

// topRun takes the last of the entries, and those before it that wrote the same
// setting, with nobody else's write of it between them, and no write of ours to what
// they may have changed around it; in the order of their writes.
func (j *Journal) topRun(chosen []*Entry) []*Entry {
	top := chosen[len(chosen)-1]
	run := []*Entry{top}
	if j.h.nextChange(top, top.id) != nil {
		return run
	}
	for _, e := range slices.Backward(chosen[:len(chosen)-1]) {
		if e.id != top.id {
			continue
		}
		if j.h.nextChange(e, e.id) != run[0] || !j.explains(e, run[0].Old) || j.h.interleaved(e, run[0]) {
			break
		}
		run = slices.Insert(run, 0, e)
	}
	return run
}

// otherBoot tells whether the entry is of an earlier run of the kernel. Where
// that was lost, it is taken to be of this one: looking does no harm.
func (r *reader) otherBoot(e *Entry) bool {
	t := r.h.txn(e.Txn)
	return t != nil && t.Boot != "" && t.Boot != r.boot
}

func (j *Journal) undoRun(run []*Entry, how UndoOptions, state EntryState, why string) error {
	top := run[len(run)-1]
	if above := j.h.nextChange(top, top.id); above != nil {
		return j.supersede(top, above, how)
	}
	if j.otherFiles(top) {
		return j.leaveUnseen(run, how, errOtherFiles)
	}
	if err := j.settings.Sweep(top.Setting); err != nil && !errors.Is(err, host.ErrGone) {
		return err
	}
	d := j.decide(run, how)
	switch d.action {
	case leaveUnseen:
		return j.leaveUnseen(run, how, d.err)
	case failUndo, reportConflict:
		return d.err
	case closeGone:
		return j.closeAll(run, Vanished, d.reason)
	case closeMissing:
		for _, e := range slices.Backward(run) {
			if err := j.close(e, Vanished, d.reason); err != nil {
				return err
			}
		}
		return nil
	case abandon:
		return j.closeAll(run, Abandoned, d.reason)
	}
	return j.restoreRun(run, how, state, why)
}

// undoAction is what undo does about a run of writes of one setting.
type undoAction int

const (
	restoreOld     undoAction = iota // write the old value
	closeGone                        // its device or namespace is gone, and all that was known of it
	closeMissing                     // the value is gone, and what lies around it may be there
	abandon                          // let somebody else's value stand, as the user says
	reportConflict                   // somebody else's value stands
	failUndo                         // the value cannot be read
	leaveUnseen                      // the value is gone, or out of sight
)

// undoDecision is an action, with why: a reason for the journal, or an error.
type undoDecision struct {
	action undoAction
	reason string
	err    error
}

// decide reads the setting of a run and says what to do. It changes nothing.
func (j *Journal) decide(run []*Entry, how UndoOptions) undoDecision {
	top := run[len(run)-1]
	current, err := j.settings.Read(top.Setting)
	gone := errors.Is(err, host.ErrGone)
	missing := errors.Is(err, os.ErrNotExist) && !errors.As(err, new(*host.InactiveError)) && !j.settings.Persistent(top.Setting)
	switch {
	case (gone || missing) && j.unseen(top):
		return undoDecision{action: leaveUnseen, err: fmt.Errorf("%v, or %w", err, errUnseen)}
	case err == nil && !current.Present && j.unseen(top):
		return undoDecision{action: leaveUnseen, err: fmt.Errorf("nothing is set, or that is %w", errUnseen)}
	case gone:
		return undoDecision{action: closeGone, reason: err.Error()}
	case missing:
		return undoDecision{action: closeMissing, reason: "the value no longer exists"}
	case err != nil && !isHidden(err):
		return undoDecision{action: failUndo, err: err}
	case err != nil && how.Leave:
		return undoDecision{action: abandon, reason: "it cannot be undone: " + err.Error()}
	case err != nil:
		return undoDecision{action: failUndo, err: fmt.Errorf("%w (\"venturi undo %d --leave\" gives it up)", err, top.Txn)}
	case how.Force:
		return undoDecision{action: restoreOld}
	}
	conflict, reason := &ConflictError{Entry: top, Now: current}, ""
	if !current.Equal(run[0].Old) && !j.explains(top, current) {
		reason = fmt.Sprintf("somebody else's %q stands", current)
	} else if k := j.unexplained(top, current); k != nil {
		conflict.SideEffect = k
		reason = fmt.Sprintf("%s stays %q", k.Setting, k.Value)
	}
	switch {
	case reason == "":
		return undoDecision{action: restoreOld}
	case how.Leave:
		return undoDecision{action: abandon, reason: reason}
	}
	return undoDecision{action: reportConflict, err: conflict}
}

// restoreRun writes the value from before a run of writes, and closes them.
func (j *Journal) restoreRun(run []*Entry, how UndoOptions, state EntryState, why string) error {
	top := run[len(run)-1]
	// Those beneath hand their old values on first: should the process end in
	// between, the top alone stands for all of them.
	for i, e := range run[:len(run)-1] {
		if err := j.supersede(e, run[i+1], how); err != nil {
			return err
		}
	}
	if err := j.restoreTo(top, false, how.Force, how.Force); err != nil {
		if how.Leave {
			return j.closeAll(run, Abandoned, "it cannot be undone: "+err.Error())
		}
		return err
	}
	if err := j.close(top, state, why); err != nil {
		return err
	}
	j.options.OnPoint(PointClosed)
	return j.closeAll(run[:len(run)-1], state, why)
}

// supersede undoes a write beneath a later one of the same setting: the later one's old
// value becomes that of this one, and the machine is not touched.
func (j *Journal) supersede(e, above *Entry, how UndoOptions) error {
	fits := func(v setting.Value) bool { return how.Force || j.explains(e, v) }
	tell, foreign := j.h.handovers(e, e.Setting, e.id, fits, e.Old)
	if foreign != nil {
		v, _ := foreign.oldOf(e.id)
		if how.Leave {
			return j.closeAll([]*Entry{e}, Abandoned, fmt.Sprintf("somebody else had changed it to %q", v))
		}
		return &ConflictError{Entry: e, Now: v}
	}
	if above.id == e.id {
		// Both list all that existed. What only one of them knows came into being by
		// a write, or went away, and that was killed before it saw it.
		for _, k := range above.sideEffects {
			e.addSideEffect(k.setting)
		}
		for _, k := range e.sideEffects {
			above.addSideEffect(k.setting)
		}
	}
	for _, k := range e.sideEffects {
		tell = append(tell, j.supersedeSideEffect(e, k, above)...)
	}
	why := fmt.Sprintf("its old value is now that of transaction %d", above.Txn)
	return j.add(record{Closed: &closedRecord{Entry: e.ID, State: Superseded, Time: time.Now(), Reason: why, Handovers: tell}})
}

// supersedeSideEffect hands on what a write that is passed changed around its setting: to
// who changed that again, or else to the one above it, who stands for it from
// then on.
func (j *Journal) supersedeSideEffect(e *Entry, k *sideEffect, above *Entry) []handover {
	left := j.sideEffectResult(e, k, !above.original().Equal(e.original()))
	if left == nil || left.Equal(k.old) {
		return nil
	}
	tell, foreign := j.h.handovers(e, k.setting, k.id, left.Equal, k.old)
	if foreign != nil {
		return nil
	}
	if len(tell) > 0 && j.h.changes(j.h.entry(tell[len(tell)-1].Entry), k.id) {
		return tell
	}
	upTo := slices.DeleteFunc(tell, func(to handover) bool { return to.Entry >= above.ID })
	return append(upTo, handover{Entry: above.ID, Setting: &k.setting, Old: k.old, All: true, Result: *left})
}

// sideEffectResult is what a write made of a side effect; nil: it left it alone, or
// nobody knows. Happened: that a write in doubt did. What it changed was not
// recorded then, but the next that came by has seen it.
func (j *Journal) sideEffectResult(e *Entry, k *sideEffect, happened bool) *setting.Value {
	if e.State == InDoubt && happened {
		for _, l := range j.h.laterOpen(e) {
			if v, known := l.oldOf(k.id); known {
				return &v
			}
		}
	}
	return k.new
}

// close says that there is nothing left to undo of an entry, and tells later
// writes that had found its new value.
func (j *Journal) close(e *Entry, state EntryState, why string) error {
	fits := func(v setting.Value) bool { return j.isResult(e, v) }
	tell, _ := j.h.handovers(e, e.Setting, e.id, fits, e.Old)
	for _, k := range e.sideEffects {
		if left := j.sideEffectResult(e, k, e.restore != nil && e.restore.Attempted); left != nil {
			around, _ := j.h.handovers(e, k.setting, k.id, left.Equal, k.old)
			tell = append(tell, around...)
		}
	}
	return j.add(record{Closed: &closedRecord{Entry: e.ID, State: state, Time: time.Now(), Reason: why, Handovers: tell}})
}

// closeAll does the same where no later write can have found anything of it.
func (j *Journal) closeAll(entries []*Entry, state EntryState, why string) error {
	var records []record
	for _, e := range entries {
		records = append(records, record{Closed: &closedRecord{Entry: e.ID, State: state, Time: time.Now(), Reason: why}})
	}
	if len(records) == 0 {
		return nil
	}
	return j.add(records...)
}
