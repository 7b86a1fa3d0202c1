package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

func newUndo(env *Env) *cobra.Command {
	var (
		how         journal.UndoOptions
		all, asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "undo [TXN...|--all]",
		Short: "Undo changes, to the byte",
		Long: `Restore the values from before a transaction: the old bytes, not defaults. Without a
number it undoes the only open transaction; if there are several, give a number.

A value that somebody else has changed since is reported and left alone, all others are
undone, and the exit code is 7. --force overwrites it; --leave keeps it and closes the
change. --leave also gives up a value that the host refuses to restore: otherwise it
stays open and blocks changes to that device. So it does with a value that cannot be read
because its device is down or does not answer; otherwise that stays open, too.

In a container that does not see all processes and files of the host, a change that was made
on the host and cannot be found stays open: undo it on the host, or give it up with --leave.

A running proof (tune --prove) is ended, which undoes what it has changed. So is a run that
uses the network card to be given back (compare --take).

Changes that ended by themselves, with a reboot, a device or a namespace, need no undo.
Undoing twice is harmless.`,
		Example: `  venturi undo
  venturi undo 7
  venturi undo --all
  venturi undo 7 --force`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := refuseNumbersWithAll(args, all); err != nil {
				return err
			}
			j, err := takeJournal(cmd.Context(), env, func(t *journal.Txn) bool {
				return t != nil && t.OfProof() && (len(args) == 0 || slices.Contains(args, strconv.Itoa(t.ID)))
			})
			if err != nil {
				return err
			}
			defer j.Close()
			txns, err := chosenTxns(j.History(), args, all)
			if err != nil {
				return err
			}
			if txns == nil && asJSON {
				return display.PrintUndoneJSON(env.Stdout, journal.History{}, nil, nil)
			}
			if txns == nil {
				_, err := sanitize.Fprintf(env.Stdout, "nothing to undo\n")
				return err
			}
			outcomes, err := j.Undo(txns, how)
			if err != nil {
				return err
			}
			if asJSON {
				return display.PrintUndoneJSON(env.Stdout, j.History(), txns, outcomes)
			}
			return display.PrintUndone(env.Stdout, outcomes)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "undo all open transactions")
	f.BoolVar(&how.Force, "force", false, "overwrite what somebody else has changed since")
	f.BoolVar(&how.Leave, "leave", false, "keep what somebody else has changed since, what the host refuses to restore, or\nwhat a device that is down or does not answer hides, and close the change")
	f.BoolVar(&asJSON, "json", false, "print the outcome for each value as JSON")
	cmd.MarkFlagsMutuallyExclusive("force", "leave")
	return onMachines(env, cmd, changeByNumber)
}

// refuseNumbersWithAll refuses numbers of transactions beside --all.
func refuseNumbersWithAll(args []string, all bool) error {
	if !all || len(args) == 0 {
		return nil
	}
	return verr.New(verr.Usage, "cannot undo "+strings.Join(args, " ")+" and all", "numbers and --all exclude each other", "leave the numbers or --all out")
}

// chosenTxns are the transactions to undo; nil: there is nothing to undo.
func chosenTxns(h journal.History, args []string, all bool) (txns []int, err error) {
	var open []string
	for _, t := range h.Txns {
		if !t.Open() {
			continue
		}
		open = append(open, strconv.Itoa(t.ID))
		if all {
			txns = append(txns, t.ID)
		}
	}
	switch {
	case all:
		return txns, nil
	case len(args) == 0 && len(open) > 1:
		return nil, verr.New(verr.Usage, "cannot choose what to undo", fmt.Sprintf("%d transactions are open: %s", len(open), strings.Join(open, ", ")),
			"name the ones to undo, or give --all; list them with: venturi journal --open")
	case len(args) == 0:
		args = open
	}
	for _, a := range args {
		t, err := txnNamed(h, a, "undo")
		if err != nil {
			return nil, err
		}
		txns = append(txns, t.ID)
	}
	return txns, nil
}

// txnNamed finds a transaction by what a user calls it.
func txnNamed(h journal.History, text, verb string) (*journal.Txn, error) {
	what := "cannot " + verb + " transaction " + text
	id, err := strconv.Atoi(text)
	if err != nil {
		return nil, verr.New(verr.Usage, what, "it is not a number", "list them with: venturi journal")
	}
	for _, t := range h.Txns {
		if t.ID == id {
			return t, nil
		}
	}
	return nil, verr.New(verr.Usage, what, "no transaction has that number", "list them with: venturi journal")
}
