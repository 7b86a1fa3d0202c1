package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/verr"
)

// daemon is a process that a lab starts on each machine, told what to do by a file. It
// is hidden: people have no use for it.
type daemon struct {
	name   string
	kind   string // what it is: "BGP speaker"
	action string // in the imperative, until standard input ends
	holds  string // what the file says
}

func (d daemon) command(run func(ctx context.Context, config string) error) *cobra.Command {
	config := ""
	cmd := &cobra.Command{
		Use:    d.name + " --config FILE",
		Short:  "Run as the " + d.kind + " of a machine",
		Long:   d.action + ", until standard\ninput ends, if it is a pipe.",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if config == "" {
				return verr.New(verr.Usage, "cannot start a "+d.kind, "--config is missing",
					"give it; venturi itself starts "+d.kind+"s when it needs them")
			}
			return run(cmd.Context(), config)
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "file that says "+d.holds)
	return cmd
}
