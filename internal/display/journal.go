package display

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// toldHistory is a journal, for machines.
type toldHistory struct {
	Transactions
	Damaged      []journal.Damage `json:"damaged,omitempty"`
	Inconsistent []string         `json:"inconsistent,omitempty"`
}

func PrintHistoryJSON(out io.Writer, txns []*journal.Txn, h journal.History, conflicts Conflicts) error {
	told, err := NewTransactions(txns, conflicts)
	if err != nil {
		return err
	}
	return PrintJSON(out, toldHistory{told, h.Damaged, h.Inconsistent})
}

func PrintTxns(out io.Writer, txns []*journal.Txn, trials []tune.Lease, conflicts Conflicts) error {
	if len(txns) == 0 {
		_, err := sanitize.Fprintf(out, "nothing was changed\n")
		return err
	}
	w := columns(out)
	sanitize.Fprintf(w, "TXN\tWHEN\tSTATE\tWRITES\tWHO\tCOMMAND\n")
	for _, t := range txns {
		sanitize.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\n", t.ID, formatTime(t.Time), StateOf(t, trials, conflicts), len(t.Entries), t.User, t.Command)
	}
	return w.Flush()
}

func PrintTxn(out io.Writer, t *journal.Txn, trials []tune.Lease, conflicts Conflicts) error {
	w := columns(out)
	sanitize.Fprintf(w, "transaction\t%d\nwhen\t%s\nwho\t%s\ncommand\t%s\nversion\t%s\nstate\t%s\n", t.ID, formatTime(t.Time), t.User, t.Command, t.Version, StateOf(t, trials, conflicts))
	if t.Lease != nil {
		sanitize.Fprintf(w, "%s\t%v\n", t.Lease.Kind, t.Lease.Length)
	}
	if !t.Confirmed.IsZero() {
		sanitize.Fprintf(w, "confirmed\t%s\n", formatTime(t.Confirmed))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, e := range t.Entries {
		found := e.New
		if e.Readback != nil {
			found = *e.Readback
		}
		sanitize.Fprintf(out, "\n%s: %s\n", e.Knob, e.Setting)
		if isLong(e.Old, found) {
			sanitize.Fprint(out, sanitize.Safe(tune.Change{Setting: e.Setting, Old: e.Old, New: found}.Diff()))
		} else {
			sanitize.Fprintf(out, "  %s -> %s\n", Brief(e.Old), Brief(found))
		}
		if c := conflicts[e.ID]; c != nil {
			sanitize.Fprint(out, stands(c))
			continue
		}
		sanitize.Fprintf(out, "  %s", stateWord(e.State))
		if !e.Closed.IsZero() {
			sanitize.Fprintf(out, ", %s", formatTime(e.Closed))
		}
		if e.Reason != "" {
			sanitize.Fprintf(out, ": %s", shortened(e.Reason, whyWidth))
		}
		sanitize.Fprintln(out)
	}
	return nil
}

// stands says what of somebody else's stands.
func stands(c *journal.ConflictError) sanitize.Safe {
	switch {
	case c.SideEffect != nil:
		return sanitize.Sprintf("  %s: %s\n", conflictWord, shortened(c.Error(), whyWidth))
	case isLong(c.Entry.New, c.Now):
		return sanitize.Sprintf("  %s: somebody else has changed it since:\n", conflictWord) + sanitize.Safe(tune.Change{Setting: c.Entry.Setting, Old: c.Entry.New, New: c.Now}.Diff())
	}
	return sanitize.Sprintf("  %s: somebody else has changed it since, to %s\n", conflictWord, Brief(c.Now))
}

// isLong tells whether one of two values is too long for a line: a diff says more.
func isLong(a, b setting.Value) bool { return strings.Contains(Brief(a)+Brief(b), " bytes, ") }

func formatTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// StateOf is the state of a transaction in a few words.
func StateOf(t *journal.Txn, trials []tune.Lease, conflicts Conflicts) string {
	var words []string
	for _, e := range t.Entries {
		if word := toJSONWrite(e, conflicts[e.ID]).State; !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	i := slices.IndexFunc(trials, func(o tune.Lease) bool { return o.Txn == t.ID })
	if len(words) == 0 {
		return "empty"
	}
	if i < 0 {
		return strings.Join(words, ", ")
	}
	text := fmt.Sprintf("on trial, %v left", trials[i].Remaining.Round(time.Second))
	switch {
	case Overdue(trials[i]) != "":
		text = string(t.Lease.Kind) + " OVERDUE"
	case t.OfProof():
		text = fmt.Sprintf("of a proof, %v left", trials[i].Remaining.Round(time.Second))
	}
	if slices.Contains(words, conflictWord) {
		text += ", " + conflictWord
	}
	return text
}

// conflictWord is what a write is called whose value somebody else has changed.
const conflictWord = "conflict"

// Conflicts are those of open writes, by their numbers.
type Conflicts map[int]*journal.ConflictError

// stateWord is what a person calls the state of a write.
func stateWord(s journal.EntryState) string {
	if s == journal.Applied {
		return "open"
	}
	return string(s)
}

// How much of a value, and of a reason with a value in it, a line shows.
const (
	valueWidth = 60
	whyWidth   = 200
)

// Brief is a value in one line; of a long one, its size and how it begins.
func Brief(v setting.Value) string {
	if !v.Present {
		return "(absent)"
	}
	text := strings.TrimRightFunc(string(v.Data), unicode.IsSpace)
	whole := strings.Join(strings.Fields(text), " ")
	switch {
	case text == "":
		return "(empty)"
	case !strings.Contains(text, "\n") && len(whole) <= valueWidth:
		return whole
	case len(whole) <= valueWidth:
		return strings.Join(strings.Split(text, "\n"), "; ")
	}
	return fmt.Sprintf("%d bytes, %q...", len(v.Data), string([]rune(whole)[:min(valueWidth/2, len([]rune(whole)))]))
}

// columns lines text up by its tabs.
func columns(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

// PrintUndone tells what became of each cell; several writes of one are undone at
// once. Errors: some could not be undone (exit code 1); somebody else's values
// stand (exit code 7).
func PrintUndone(out io.Writer, outcomes []journal.Outcome) error {
	told := map[string]bool{}
	conflicts, failed := 0, []error{}
	for _, o := range outcomes {
		e, conflict, long := o.Entry, new(journal.ConflictError), false
		line := fmt.Sprintf("%-10s %s: %s", e.State, e.Setting, shortened(e.Reason, whyWidth))
		switch {
		case errors.As(o.Err, &conflict):
			line = fmt.Sprintf("conflict   %s: was %s, we wrote %s, is %s", e.Setting, Brief(conflict.Entry.Old), Brief(conflict.Entry.New), Brief(conflict.Now))
			if long = conflict.SideEffect == nil && isLong(conflict.Entry.New, conflict.Now); long {
				line = fmt.Sprintf("conflict   %s: somebody else has changed what we wrote:", e.Setting)
			}
		case o.Err != nil:
			line = fmt.Sprintf("not undone %s: %v", e.Setting, o.Err)
		case e.State == journal.Undone:
			line = fmt.Sprintf("restored   %s: %s", e.Setting, Brief(e.Old))
		}
		if told[line] {
			continue
		}
		told[line] = true
		sanitize.Fprintln(out, line)
		if long {
			sanitize.Fprint(out, sanitize.Safe(tune.Change{Setting: e.Setting, Old: conflict.Entry.New, New: conflict.Now}.Diff()))
		}
		if conflict.Entry != nil {
			conflicts++
		} else if o.Err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", e.Setting, o.Err))
		}
	}
	if len(told) == 0 {
		sanitize.Fprintf(out, "nothing to undo\n")
	}
	switch {
	case len(failed) > 0:
		return verr.Wrap(verr.Failed, fmt.Sprintf("cannot undo %d of %d values", len(failed), len(told)), failed[0],
			"fix that, and run undo again: values already undone stay undone")
	case conflicts > 0:
		return verr.New(verr.Partial, fmt.Sprintf("%d of %d values were not undone", conflicts, len(told)), "somebody else has changed them since",
			"overwrite them with the old values (--force), or keep them and close the change (--leave)")
	}
	return nil
}

// holderGrace is how long after its end a trial counts as overdue.
const holderGrace = 10 * time.Second

// Overdue is why a trial is not going to end by itself; empty: it is.
func Overdue(t tune.Lease) string {
	switch {
	case t.Rebooted:
		return "the machine was rebooted before it was confirmed"
	case t.HasHolder && t.Remaining > -holderGrace:
		return ""
	case t.HasHolder:
		return fmt.Sprintf("it ended %v ago; the process that undoes it could not until now, and goes on trying", (-t.Remaining).Round(time.Second))
	case t.Remaining > 0:
		return fmt.Sprintf("it has %v left, and the process that was to undo it then is gone", t.Remaining.Round(time.Second))
	}
	return fmt.Sprintf("it ended %v ago; the process that was to undo it is gone, or could not", (-t.Remaining).Round(time.Second))
}
