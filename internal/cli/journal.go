package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/tune"
)

func newJournal(env *Env) *cobra.Command {
	var asJSON, open bool
	cmd := &cobra.Command{
		Use:   "journal [TXN]",
		Short: "List what was changed, by whom, and from what to what",
		Long: `List the transactions in which Venturi changed this machine: when, by whom, and by
which command; with a number, every write of one, from what to what.

  open       in effect, and can be undone
  on trial   undone when the time ends, unless it is confirmed
  undone     the old value is back
  passed     undone, beneath a later transaction of the same value
  failed     it had no effect, and the old value stayed
  gone       the value went away, with a reboot, its device or its namespace
  left       given up: somebody else's value stays, or ours that could not be undone
  in-doubt   the writer was killed: it may have been written, undo will check
  conflict   somebody else has changed it since: undo will leave it alone
  empty      nothing was written

A conflict is looked for now, where the value can be read.`,
		Example: `  venturi journal
  venturi journal 7
  venturi journal --open --json`,
		Args: atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			folder, err := journalFolder(env)
			if err != nil {
				return err
			}
			h, err := journal.ReadHistory(folder)
			if err != nil {
				return permissionError("cannot read the journal of changes", err)
			}
			if err := warnJournal(env.Stderr, h, folder); err != nil {
				return err
			}
			trials, err := tune.OpenLeases(h, folder)
			if err != nil {
				return err
			}
			conflicts := h.Conflicts(thisMachine().Settings)
			if len(args) == 1 {
				t, err := txnNamed(h, args[0], "show")
				if err != nil {
					return err
				}
				if asJSON {
					return printHistoryJSON(env.Stdout, []*journal.Txn{t}, h, conflicts)
				}
				return printTxn(env.Stdout, t, trials, conflicts)
			}
			if open {
				h.Txns = slices.DeleteFunc(slices.Clone(h.Txns), func(t *journal.Txn) bool { return !t.Open() })
			}
			if asJSON {
				return printHistoryJSON(env.Stdout, h.Txns, h, conflicts)
			}
			if open && len(h.Txns) == 0 {
				_, err := sanitize.Fprintf(env.Stdout, "nothing is open: there is nothing to undo\n")
				return err
			}
			return printTxns(env.Stdout, h.Txns, trials, conflicts)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON, with all values whole")
	cmd.Flags().BoolVar(&open, "open", false, "only those that can be undone")
	return cmd
}

// toldHistory is a journal, for machines.
type toldHistory struct {
	jsonTxns
	Damaged []journal.Damage `json:"damaged,omitempty"`
	Strange []string         `json:"strange,omitempty"`
}

func printHistoryJSON(out io.Writer, txns []*journal.Txn, h journal.History, conflicts conflicts) error {
	told, err := toJSONTxns(txns, conflicts)
	if err != nil {
		return err
	}
	return printJSON(out, toldHistory{told, h.Damaged, h.Inconsistent})
}

func printTxns(out io.Writer, txns []*journal.Txn, trials []tune.Lease, conflicts conflicts) error {
	if len(txns) == 0 {
		_, err := sanitize.Fprintf(out, "nothing was changed\n")
		return err
	}
	w := columns(out)
	sanitize.Fprintf(w, "TXN\tWHEN\tSTATE\tWRITES\tWHO\tCOMMAND\n")
	for _, t := range txns {
		sanitize.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\n", t.ID, formatTime(t.Time), stateOf(t, trials, conflicts), len(t.Entries), t.User, t.Command)
	}
	return w.Flush()
}

func printTxn(out io.Writer, t *journal.Txn, trials []tune.Lease, conflicts conflicts) error {
	w := columns(out)
	sanitize.Fprintf(w, "transaction\t%d\nwhen\t%s\nwho\t%s\ncommand\t%s\nversion\t%s\nstate\t%s\n", t.ID, formatTime(t.Time), t.User, t.Command, t.Version, stateOf(t, trials, conflicts))
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
			sanitize.Fprintf(out, "  %s -> %s\n", brief(e.Old), brief(found))
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
	return sanitize.Sprintf("  %s: somebody else has changed it since, to %s\n", conflictWord, brief(c.Now))
}

// isLong tells whether one of two values is too long for a line: a diff says more.
func isLong(a, b setting.Value) bool { return strings.Contains(brief(a)+brief(b), " bytes, ") }

func formatTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// stateOf is the state of a transaction in a few words.
func stateOf(t *journal.Txn, trials []tune.Lease, conflicts conflicts) string {
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
	case overdue(trials[i]) != "":
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

// conflicts are those of open writes, by their numbers.
type conflicts map[int]*journal.ConflictError

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

// brief is a value in one line; of a long one, its size and how it begins.
func brief(v setting.Value) string {
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
