package journal

import (
	"errors"
	"fmt"

	"github.com/venturi-net/venturi/internal/setting"
)

// A journal may be opened by a process that sees less of the machine than the one that wrote
// it: in a container that has its folder, and files, processes and mounts of its own. What is
// not in sight there need not be gone, and a file of the same name is another one.

var (
	errOtherFiles = errors.New("it was changed where other files are in sight: " + undoElsewhere)
	errUnseen     = errors.New("out of sight: not all of the machine can be seen from here: " + undoElsewhere)
)

const undoElsewhere = "undo it on the host, or in the container that changed it; if that is gone, give it up with --leave"

// sightOf is the name of what was in sight when the entry was written. Where that was lost,
// it is taken to be all of the machine.
func (r *reader) sightOf(e *Entry) string {
	if t := r.h.txn(e.Txn); t != nil {
		return t.Sight
	}
	return ""
}

// unseen tells whether the entry's value may be where this process does not look.
func (r *reader) unseen(e *Entry) bool { return !r.sees(r.sightOf(e)) }

// sees tells whether what was in sight, by its name, can be looked for from here.
func (r *reader) sees(sight string) bool { return r.sight.Whole || r.sight.Covers(sight) }

// otherFiles tells whether the entry's value is in files that are out of sight.
func (r *reader) otherFiles(e *Entry) bool {
	return r.settings.Installed(e.Setting) && !r.sight.Covers(r.sightOf(e))
}

// leaveUnseen leaves a run of writes open, with why, or gives it up if the user says so.
func (j *Journal) leaveUnseen(run []*Entry, how UndoOptions, why error) error {
	if how.Leave {
		return j.closeAll(run, Abandoned, why.Error())
	}
	return why
}

// checkOpen refuses to write a setting by whose name there is an open change of other files:
// the two would be taken for writes of one value.
func (j *Journal) checkOpen(s setting.Setting) error {
	id := s.ID()
	for _, e := range j.h.entries {
		if e.State.Open() && e.id == id && j.otherFiles(e) {
			return fmt.Errorf("%s: transaction %d is open (\"venturi undo %d --leave\" gives it up): %w", s, e.Txn, e.Txn, errOtherFiles)
		}
	}
	return nil
}
