package cli

import (
	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/bgp"
	"github.com/venturi-net/venturi/internal/verr"
)

// newSpeaker is the process that a lab with BGP starts on each machine. It is
// hidden: people have no use for it.
func newSpeaker(env *Env) *cobra.Command {
	var o bgp.Options
	cmd := &cobra.Command{
		Use:    "speaker --config FILE",
		Short:  "Be the BGP speaker of a machine",
		Long:   "Announce the blocks of one machine and install those of its neighbours as routes\nof the kernel, until standard input ends, if it is a pipe.",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Config == "" {
				return verr.New(verr.Usage, "cannot start a BGP speaker", "--config is missing",
					"give it; venturi itself starts speakers when it needs them")
			}
			o.Stdin, o.Log = env.Stdin, env.Stderr
			return bgp.Main(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Config, "config", "", "file that says what to announce, and whom to speak with")
	return cmd
}
