package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/bgp"
)

func newSpeaker(env *Env) *cobra.Command {
	return daemon{
		name:   "speaker",
		kind:   "BGP speaker",
		action: "Announce the blocks of one machine and install those of its\nneighbours as routes of the kernel",
		holds:  "what to announce, and whom to speak with",
	}.command(func(ctx context.Context, config string) error {
		return bgp.Main(ctx, bgp.Options{Config: config, Stdin: env.Stdin, Log: env.Stderr})
	})
}
