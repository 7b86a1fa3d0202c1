package journal

import (
	"errors"
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/setting"
)

// errUnread is wrapped by the error of finishing a restore whose value cannot be read, by
// what need not last: it is not given up.
var errUnread = errors.New("its value cannot be read")

// finishRestores brings to their ends the restores that were begun and not finished, of the
// entries that touch one of some settings, by their ids: what the side effects hold
// is known then. Those of the entries that are to be undone end with the old
// value. It gives the entries for which that went wrong.
func (j *Journal) finishRestores(touched map[string]bool, undo []*Entry) map[*Entry]error {
	stuck := map[*Entry]error{}
	for _, e := range j.unfinishedRestores() {
		if !e.touches(func(id string) bool { return touched[id] }) {
			continue
		}
		current, err := j.settings.Read(e.Setting)
		if err != nil && !isMissing(err) && !isHidden(err) {
			stuck[e] = fmt.Errorf("finish transaction %d: %w: %w", e.Txn, errUnread, err)
			continue
		}
		if err == nil && j.explains(e, current) {
			err = j.restore(e, e.restore.On && !slices.Contains(undo, e))
		}
		if err != nil && !isMissing(err) {
			stuck[e] = fmt.Errorf("finish transaction %d (\"venturi undo %d --leave\" gives it up): %w", e.Txn, e.Txn, err)
		}
	}
	return stuck
}

// unfinishedRestores are the entries whose restore was begun and not finished: a process was
// killed in it, or the machine refused it.
func (j *Journal) unfinishedRestores() []*Entry {
	var begun []*Entry
	for _, e := range j.h.entries {
		if e.restore != nil && e.State.Open() && !j.otherBoot(e) && j.h.nextChange(e, e.id) == nil {
			begun = append(begun, e)
		}
	}
	return begun
}

// finishRestoresFor does so before a setting is written: what lies around it is to be
// known, and nothing else is touched. Error: that went wrong.
func (j *Journal) finishRestoresFor(s setting.Setting) error {
	if len(j.unfinishedRestores()) == 0 {
		return nil
	}
	around, err := j.settings.SideEffects(s)
	if err != nil {
		return fmt.Errorf("list what else changes with %s: %w", s, err)
	}
	touched := map[string]bool{s.ID(): true}
	for _, s := range around {
		touched[s.ID()] = true
	}
	return j.firstStuck(j.finishRestores(touched, nil), func(*Entry) bool { return true })
}

// blockedBy is why an entry cannot be undone yet: its restore, or that of one which
// touches the same settings, could not be finished. Nil: it can.
func (j *Journal) blockedBy(e *Entry, stuck map[*Entry]error) error {
	if err := stuck[e]; err != nil {
		return err
	}
	return j.firstStuck(stuck, func(s *Entry) bool {
		return s.touches(func(id string) bool { return e.id == id || e.sideEffect(id) != nil })
	})
}

// firstStuck is the error of the first of some entries that was not restored.
func (j *Journal) firstStuck(stuck map[*Entry]error, some func(*Entry) bool) error {
	for _, e := range j.h.entries {
		if stuck[e] != nil && some(e) {
			return stuck[e]
		}
	}
	return nil
}
