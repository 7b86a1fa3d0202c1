package cli

import (
	"errors"
	"io"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/journal"
)

// undone is what an undo did, for machines.
type undone struct {
	Version  int          `json:"version"` // of this form: 1
	Outcomes []undoneCell `json:"outcomes"`
}

// undoneCell is what became of one write.
type undoneCell struct {
	Transaction int           `json:"transaction"`
	Knob        string        `json:"knob"`
	Cell        change.Cell   `json:"cell"`
	Old         change.Value  `json:"old"`
	Ours        change.Value  `json:"ours"`
	Now         *change.Value `json:"now,omitempty"` // somebody else's, in a conflict
	State       journal.State `json:"state"`
	Conflict    bool          `json:"conflict"`
	Why         string        `json:"why,omitempty"` // of the state, or why it is still open
}

// printUndoneJSON is [printUndone] for machines, with the same errors.
func printUndoneJSON(out io.Writer, outcomes []journal.Outcome) error {
	all := undone{Version: 1, Outcomes: []undoneCell{}}
	for _, o := range outcomes {
		e := o.Entry
		c := undoneCell{Transaction: e.Txn, Knob: e.Knob, Cell: e.Cell, Old: e.Old, Ours: e.New, State: e.State, Why: e.Why}
		if o.Err != nil {
			c.Why = o.Err.Error()
		}
		if conflict := new(journal.ConflictError); errors.As(o.Err, &conflict) {
			c.Conflict, c.Now = true, &conflict.Now
		}
		all.Outcomes = append(all.Outcomes, c)
	}
	if err := printJSON(out, all); err != nil {
		return err
	}
	return printUndone(io.Discard, outcomes)
}
