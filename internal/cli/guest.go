package cli

import (
	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/vm"
)

// newGuest is the process that holds a virtual machine for others. It is
// hidden: people have no use for it.
func newGuest(env *Env) *cobra.Command {
	var o vm.HoldOptions
	var detach bool
	cmd := &cobra.Command{
		Use:    "guest --config FILE --socket PATH",
		Short:  "Hold a virtual machine for others",
		Long:   "Start a virtual machine and open it to other processes on a unix socket in a\nprivate folder, until standard input ends.",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Config == "" || o.Socket == "" {
				return verr.New(verr.Usage, "cannot hold a virtual machine", "--config or --socket is missing",
					"give both; venturi itself starts virtual machines when it needs them")
			}
			if !detach {
				o.Stdin = env.Stdin
			}
			return vm.Hold(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Config, "config", "", "file that says which machine")
	cmd.Flags().StringVar(&o.Socket, "socket", "", "path of the unix socket to listen on; its folder must have mode 0700")
	cmd.Flags().BoolVar(&detach, "detach", false, "keep running when standard input ends")
	return cmd
}
