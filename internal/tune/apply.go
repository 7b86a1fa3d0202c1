package tune

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/verr"
)

// TrialOptions is how long a transaction stays without being confirmed.
type TrialOptions struct {
	Lease time.Duration // 0: it is no trial

	// Hold sees to it that the transaction is undone when its lease ends, whatever
	// becomes of this process. It is called before anything is written.
	Hold func(txn int) error

	// Settle says whether what was written stays: an error undoes it. nil: it stays.
	Settle func(ctx context.Context, txn int) error
}

// Apply carries assignments out in one transaction: all of them, or none. It gives
// the transaction's number and the writes that were needed; without any there is
// no transaction, and the number is 0. When an assignment fails, or ctx ends, what was
// written is undone, the last first.
func Apply(ctx context.Context, j *journal.Journal, m knob.Machine, assignments []Assignment, trial TrialOptions) (txn int, entries []*journal.Entry, err error) {
	planned, err := DryRun(m, assignments)
	if err != nil || len(Total(planned)) == 0 {
		return 0, nil, err
	}
	tx, err := j.Begin(trial.Lease)
	if err != nil {
		return 0, nil, err
	}
	if trial.Lease > 0 {
		err = trial.Hold(tx.ID())
	}
	for i := 0; i < len(assignments) && err == nil; i++ {
		if err = context.Cause(ctx); err != nil {
			break
		}
		var written []*journal.Entry
		written, err = Set(tx, m, assignments[i])
		entries = append(entries, written...)
	}
	if err == nil {
		err = checkUndisturbed(m, entries)
	}
	if err == nil && trial.Settle != nil {
		err = trial.Settle(ctx, tx.ID())
	}
	if err != nil {
		err = rollback(ctx, tx, entries, err)
		return 0, nil, errors.Join(err, tx.End())
	}
	if err := tx.End(); err != nil {
		return tx.ID(), entries, verr.Wrap(verr.Failed, "cannot record that all changes were made", err,
			fmt.Sprintf("the changes were made; undo them with: venturi undo %d", tx.ID()))
	}
	return tx.ID(), entries, nil
}

// checkUndisturbed sees that no write was disturbed by a later one, such as a setting
// that a driver forgets when another one is made.
func checkUndisturbed(m knob.Machine, entries []*journal.Entry) error {
	last := map[string]*journal.Entry{}
	for _, e := range entries {
		last[e.Setting.ID()] = e
	}
	for _, e := range entries {
		if last[e.Setting.ID()] != e {
			continue
		}
		now, err := m.Settings.Read(e.Setting)
		if err != nil {
			return err
		}
		if e.Readback != nil && !now.Equal(*e.Readback) {
			return verr.New(verr.Failed, "cannot set "+e.Knob+" together with the others",
				fmt.Sprintf("%s was set to %q, but reads %q after the other settings", e.Setting, e.New, now), "set "+e.Knob+" in a separate transaction")
		}
	}
	return nil
}

// rollback undoes a transaction that cannot be whole, and tells why.
func rollback(ctx context.Context, tx *journal.Tx, entries []*journal.Entry, why error) error {
	failed := verr.Error{Summary: "cannot make all the changes", Reason: why.Error(), Hint: "remove the cause, and run the command again (nothing remains changed)", Code: verr.Failed, Err: why}
	if known := new(verr.Error); errors.As(why, &known) {
		failed = *known
	}
	if err := tx.Revert(entries, "the transaction could not be completed: "+failed.Reason); err != nil {
		failed.Hint = fmt.Sprintf("undoing the earlier changes failed, too (%v): try again with: venturi undo %d", err, tx.ID())
		failed.Err = err
		return &failed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(entries) > 0 {
		failed.Hint += "; the earlier changes were undone"
	}
	return &failed
}
