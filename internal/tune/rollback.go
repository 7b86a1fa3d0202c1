package tune

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/verr"
)

// UndoHeld undoes the changes of one of several machines that were made and cannot be
// reported: the other machines undo theirs, because they take this one to have failed.
func UndoHeld(j *journal.Journal, txn int, why error) error {
	reason := why.Error()
	if known := new(verr.Error); errors.As(why, &known) {
		reason = known.Summary + ": " + known.Reason
	}
	outcomes, err := j.Undo([]int{txn}, journal.UndoOptions{})
	for _, o := range outcomes {
		err = errors.Join(err, o.Err)
	}
	if err != nil {
		return verr.New(verr.Failed, "cannot undo the changes of transaction "+strconv.Itoa(txn), fmt.Sprintf("%v; they were to be undone because of this: %s", err, reason),
			"undo them on this machine with: venturi undo "+strconv.Itoa(txn))
	}
	return verr.New(verr.Code(why), "cannot keep the changes", reason, "nothing remains changed on this machine")
}
