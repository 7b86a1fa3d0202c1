package cli

import (
	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/bgp"
	"github.com/venturi-net/venturi/internal/verr"
)

// newSpeaker is the command of a process that a lab starts on each machine. It is hidden: people have no use for it.
func newSpeaker(env *Env) *cobra.Command {
	o := bgp.Options{Stdin: env.Stdin, Log: env.Stderr}
	cmd := &cobra.Command{
		Use:    "speaker --config FILE",
		Short:  "Run as the BGP speaker of a machine",
		Long:   "Announce the blocks of one machine and install those of its\nneighbours as routes of the kernel, until standard input ends, if it is a pipe.",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needConfig("BGP speaker", o.Config); err != nil {
				return err
			}
			return bgp.Main(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Config, "config", "", "file that says what to announce, and whom to speak with")
	return cmd
}

// needConfig refuses to start what a lab starts, without the file that tells it what to do.
func needConfig(kind, config string) error {
	if config != "" {
		return nil
	}
	return verr.New(verr.Usage, "cannot start a "+kind, "--config is missing", "give it; venturi itself starts "+kind+"s when it needs them")
}
