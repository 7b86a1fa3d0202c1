// Package benchcli is the command line of venturi-bench: one file a benchmark, and no
// logic.
package benchcli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/cli"
)

const longHelp = `Run benchmarks of Venturi itself, with limits that must hold: how near the fast path
comes to the host network, which planted faults "tune --prove" fixes, and whether
schedules and rates are kept. Each prints what it measured, and then each of its limits,
as "holds" or "MISSED". The exit code is 1 if a limit is missed. The machine must do
nothing else meanwhile.`

// Run runs one command line, as [cli.CommandLine.Run] does.
func Run(ctx context.Context, env *cli.Env) int {
	return cli.CommandLine{
		Name:  "venturi-bench",
		Short: "Benchmarks of Venturi itself",
		Long:  longHelp,
		Example: `  venturi-bench fast       how near the fast path comes to the host network, about an hour
  venturi-bench proofs     faults that tune --prove must fix, up to 4 hours
  venturi-bench rates      schedules and rates, and a core that carries too much, about 10 minutes`,
		// A lab starts this very program as its agents and daemons.
		Commands: append([]func(*cli.Env) *cobra.Command{newFast, newProofs, newRates}, cli.HiddenCommands()...),
	}.Run(ctx, env)
}
