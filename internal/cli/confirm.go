package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

func newConfirm(env *Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "confirm [TXN]",
		Short: "Keep changes that are on trial",
		Long: `Keep changes made with --trial: they are not undone when the time of the trial ends.
"venturi undo" can still undo them. Without a number it confirms the only transaction on
trial.`,
		Example: "  venturi confirm\n  venturi confirm 7",
		Args:    atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			j, err := waitForJournal(cmd.Context(), env)
			if err != nil {
				return err
			}
			defer j.Close()
			txn, err := toConfirm(j.History(), args)
			if err != nil {
				return err
			}
			if err := j.Confirm(txn); err != nil {
				return err
			}
			if asJSON {
				return display.PrintTxnJSON(env.Stdout, j.History(), txn)
			}
			_, err = sanitize.Fprintf(env.Stdout, "transaction %d stays; undo with: venturi undo %[1]d\n", txn)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the transaction as JSON")
	return onMachines(env, cmd, changeByNumber)
}

// toConfirm is the transaction that a user wants to keep.
func toConfirm(h journal.History, args []string) (int, error) {
	if len(args) == 0 {
		for _, t := range h.Txns {
			if t.Lease != nil && !t.OfProof() && t.Confirmed.IsZero() && t.Open() {
				args = append(args, strconv.Itoa(t.ID))
			}
		}
	}
	switch len(args) {
	case 0:
		return 0, verr.New(verr.Usage, "cannot confirm a trial", "no transaction is on trial", "see what was changed with: venturi journal")
	default:
		return 0, verr.New(verr.Usage, "cannot choose what to confirm", "several transactions are on trial: "+strings.Join(args, ", "), "give the number of one")
	case 1:
	}
	t, err := txnNamed(h, args[0], "confirm")
	if err != nil {
		return 0, err
	}
	if t.Lease != nil && !t.OfProof() && !t.Open() {
		return 0, verr.New(verr.Failed, "cannot confirm transaction "+args[0], "it is no longer in effect: "+display.StateOf(t, nil, nil), "see what happened to it with: venturi journal "+args[0])
	}
	return t.ID, nil
}
