package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/tune/cluster"
	"github.com/venturi-net/venturi/internal/verr"
)

// newLease is the process that undoes a trial when its time ends. It is hidden:
// people have no use for it.
func newLease(env *Env) *cobra.Command {
	var (
		folder string
		txn    int
	)
	cmd := &cobra.Command{
		Use:    "lease --journal FOLDER --txn N",
		Short:  "Undo a trial when its time ends",
		Long:   "Wait until the time of a trial ends, and undo it unless it has been confirmed.",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !filepath.IsAbs(folder) || txn == 0 {
				return verr.New(verr.Usage, "cannot hold a lease", "--journal or --txn is missing", "give both; venturi itself starts this when it makes a trial")
			}
			_ = agent.Occupy() // for a container's first process, which waits for this one; there is none elsewhere
			return tune.Hold(cmd.Context(), folder, txn, func() (*journal.Journal, error) {
				return journal.Open(journal.Options{Folder: folder, Settings: thisMachine().Settings, User: journal.User(env.Getenv), Version: Version()})
			})
		},
	}
	cmd.Flags().StringVar(&folder, "journal", "", "folder of the journal")
	cmd.Flags().IntVar(&txn, "txn", 0, "transaction")
	return cmd
}

// newKubeLease is the pod that undoes a trial when its time ends. It is hidden: people have no use
// for it.
func newKubeLease(env *Env) *cobra.Command {
	var u kubeUndo
	var token string
	cmd := &cobra.Command{
		Use:    "lease --token TOKEN",
		Short:  "Undo a trial in a cluster when its time ends",
		Long:   "Wait until the time of a trial in a cluster ends, and undo it unless it has been confirmed.",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cluster.HoldLease(cmd.Context(), u.request(env, "kubectl venturi lease", progress.New(env.Stderr)), token)
		},
	}
	f := cmd.Flags()
	u.flags(f)
	f.StringVar(&token, "token", "", "what the cluster's journal knows the transaction by")
	return cmd
}
