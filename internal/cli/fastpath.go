package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/fastpath"
)

func newFastpath(env *Env) *cobra.Command {
	o := fastpath.Options{Stdin: env.Stdin}
	cmd := daemon{
		name:   "fastpath",
		kind:   "fast path",
		action: "Carry established flows of one machine's pods past the slow path",
		holds:  "what to carry, and where",
	}.command(func(ctx context.Context, config string) error {
		o.Config = config
		return fastpath.Main(ctx, o)
	})
	cmd.Flags().BoolVar(&o.Replace, "replace", false, "take over from the daemon that lives there: it ends, and leaves in place what is attached")
	return cmd
}
