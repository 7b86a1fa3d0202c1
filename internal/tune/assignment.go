// Package tune turns knobs: it plans, proves, commits and undoes. All that it
// changes goes through the journal.
package tune

import (
	"errors"
	"fmt"
	"strings"

	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/ovs"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// Backends are all kinds of values that any command writes: whoever opens the journal
// hands it these, so that everything in it can be undone.
func Backends(root string) []setting.Backend {
	return append(setting.Backends(root), ovs.Backend(), node.Backend())
}

// Assignment is one knob that shall have a value.
type Assignment struct {
	Knob   knob.Entry
	Target knob.Target
	Value  string
	Ladder []string // all values worth a trial, Value the first of them; nil: Value alone
	Step   *Step    // of the profile that asks for it; nil: somebody asked for it
}

// Set turns one knob inside of a transaction, and sees that the value is in
// effect. The entries are the writes that were needed; none if the knob had the
// value already. On an error what it wrote is undone.
//
// It plans anew what [DryRun] has planned: a write before it may have changed more of the
// host than itself, such as the number of queues, and no dry run can know that.
func Set(tx *journal.Tx, m knob.Machine, w Assignment) ([]*journal.Entry, error) {
	writes, err := w.Knob.Plan(m, w.Target, w.Value)
	if err != nil {
		return nil, err
	}
	var entries []*journal.Entry
	for _, write := range writes {
		e, err := tx.Set(w.Knob.Name, write)
		if err != nil {
			return nil, rollbackKnob(tx, w, entries, err)
		}
		if e != nil {
			entries = append(entries, e)
		}
	}
	if err := CheckEffect(m, w); err != nil {
		return nil, rollbackKnob(tx, w, entries, err)
	}
	return entries, nil
}

// CheckEffect sees that the value that a knob has is in effect. Error: it is not, or cannot be read.
func CheckEffect(m knob.Machine, w Assignment) error {
	now, err := w.Knob.Get(m, w.Target)
	if err == nil && now.Effective != "" && now.Effective != now.Value {
		return noEffect(w, now)
	}
	return err
}

// noEffect is the error of a value that stands and does nothing, with what to set
// before it where the knob knows.
func noEffect(w Assignment, now knob.Reading) error {
	why := fmt.Sprintf("it was set to %s, and %s is in effect", now.Value, now.Effective)
	if len(now.First) == 0 {
		return errors.New(why)
	}
	do := "set what it needs before it: venturi knob set " + strings.Join(now.First, " ") + " " + sanitize.Command(w.Knob.Name, w.Value)
	if w.Target.File != "" {
		do += " --manifest " + sanitize.Shell(w.Target.File)
	}
	return verr.New(verr.Failed, fmt.Sprintf("cannot set %s to %s", w.Knob.Name, w.Value), why+": "+now.Note, do+" (nothing remains changed)")
}

// rollbackKnob undoes what of a knob was written, and tells why.
func rollbackKnob(tx *journal.Tx, w Assignment, entries []*journal.Entry, why error) error {
	what := fmt.Sprintf("cannot set %s to %s", w.Knob.Name, w.Value)
	do, code := "remove the cause, and run the command again (nothing remains changed)", verr.Failed
	if errors.Is(why, errors.ErrUnsupported) {
		code = verr.Missing
	}
	if err := tx.Revert(entries, why.Error()); err != nil {
		why = errors.New(why.Error()) // what to do about it is not what matters now
		do = fmt.Sprintf("undoing it failed, too (%v): try again with: venturi undo %d", err, tx.ID())
	}
	return verr.Wrap(code, what, why, do)
}
