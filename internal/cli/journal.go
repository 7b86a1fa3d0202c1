package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/tune"
)

func newJournal(env *Env) *cobra.Command {
	var asJSON, open bool
	cmd := &cobra.Command{
		Use:   "journal [TXN]",
		Short: "List changes: by whom, and from what to what",
		Long: `List the transactions in which Venturi changed this machine: when, by whom, and by
which command; with a number, every write of one, from what to what.

  open       in effect, and can be undone
  on trial   will be undone when the time ends, unless it is confirmed
  undone     the old value is restored
  passed     undone, but a later transaction still sets the same value
  failed     the write had no effect, and the old value stayed
  gone       the value disappeared with a reboot, its device or its namespace
  left       given up: somebody else's value stays, or one that could not be undone
  in-doubt   the writer was killed: the value may have been written; undo will check
  conflict   somebody else has changed it since; undo will leave it alone
  empty      nothing was written

Conflicts are checked at the time of the call, where the value can be read.`,
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
			if err := display.WarnJournal(env.Stderr, h, folder); err != nil {
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
					return display.PrintHistoryJSON(env.Stdout, []*journal.Txn{t}, h, conflicts)
				}
				return display.PrintTxn(env.Stdout, t, trials, conflicts)
			}
			if open {
				h.Txns = slices.DeleteFunc(slices.Clone(h.Txns), func(t *journal.Txn) bool { return !t.Open() })
			}
			if asJSON {
				return display.PrintHistoryJSON(env.Stdout, h.Txns, h, conflicts)
			}
			if open && len(h.Txns) == 0 {
				_, err := sanitize.Fprintf(env.Stdout, "nothing is open: there is nothing to undo\n")
				return err
			}
			return display.PrintTxns(env.Stdout, h.Txns, trials, conflicts)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON, with complete values")
	cmd.Flags().BoolVar(&open, "open", false, "only those that can be undone")
	return onMachines(env, cmd, readByNumber)
}
