package cli

import (
	"github.com/spf13/cobra"

	fast "github.com/venturi-net/venturi/internal/accel"
	"github.com/venturi-net/venturi/internal/verr"
)

// newFastpath is the process that a lab with a fast path starts on each machine. It
// is hidden: people have no use for it.
func newFastpath(env *Env) *cobra.Command {
	var o fast.Options
	cmd := &cobra.Command{
		Use:    "fastpath --config FILE",
		Short:  "Be the fast path of a machine",
		Long:   "Carry established flows of one machine's pods past the slow path, until standard\ninput ends, if it is a pipe.",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Config == "" {
				return verr.New(verr.Usage, "cannot start a fast path", "--config is missing",
					"give it; venturi itself starts fast paths when it needs them")
			}
			o.Stdin = env.Stdin
			return fast.Main(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.Replace, "replace", false, "take over from the daemon that lives there: it ends, and leaves in place what is attached")
	cmd.Flags().StringVar(&o.Config, "config", "", "file that says what to carry, and where")
	return cmd
}
