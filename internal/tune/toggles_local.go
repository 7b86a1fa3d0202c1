package tune

import (
	"context"
	"errors"
	"fmt"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/verr"
)

// Toggles are candidates that can be turned on and off, on this machine or on others.
type Toggles interface {
	// Prepare sets each candidate once, sees that it takes effect, and takes it back. It
	// gives those that can be switched, and rows that say why the others cannot.
	Prepare(ctx context.Context) (fit []Candidate, unfit []search.Row, err error)
	// Switch turns on a subset of those, and all others off.
	Switch(ctx context.Context, to search.Subset) error
	// Close takes back all that was tried.
	Close() error
}

// localToggles are those of this machine: all that they write is one transaction.
type localToggles struct {
	Journal    *journal.Journal
	Machine    knob.Machine
	Candidates []Candidate
	Lease      TrialOptions // see [Proof.Lease]

	tx     *journal.Tx
	states *toggles
}

// Prepare is of [Toggles].
func (l *localToggles) Prepare(ctx context.Context) (fit []Candidate, unfit []search.Row, err error) {
	if l.tx, err = l.Journal.BeginProof(l.Lease.Lease); err != nil {
		return nil, nil, err
	}
	if l.Lease.Lease > 0 {
		if err := l.Lease.Hold(l.tx.ID()); err != nil {
			return nil, nil, err
		}
	}
	l.states, fit, unfit, err = prepare(ctx, l.Journal, l.tx, l.Machine, l.Candidates)
	return fit, unfit, err
}

// Switch is of [Toggles].
func (l *localToggles) Switch(ctx context.Context, to search.Subset) error {
	if l.Journal.EndRequested() {
		return verr.New(verr.Partial, "cannot go on with the proof", "somebody ran \"venturi undo\", or ended a fast path here", "everything that it changed is undone; run it again")
	}
	return l.states.switchTo(ctx, to)
}

// Close is of [Toggles]. It does not end with a context: when a search is interrupted, this
// still has to be done.
func (l *localToggles) Close() error {
	if l.tx == nil {
		return nil
	}
	failed := []error{l.tx.End()}
	outcomes, err := l.Journal.Undo([]int{l.tx.ID()}, journal.UndoOptions{})
	failed = append(failed, err)
	for _, o := range outcomes {
		if o.Err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", o.Entry.Setting, o.Err))
		}
	}
	return verr.Wrap(verr.Failed, "cannot undo all changes of the proof", errors.Join(failed...), fmt.Sprintf("try again with: venturi undo %d", l.tx.ID()))
}
