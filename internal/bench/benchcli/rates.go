package benchcli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/bench/rates"
	"github.com/venturi-net/venturi/internal/cli"
	"github.com/venturi-net/venturi/internal/sanitize"
)

func newRates(env *cli.Env) *cobra.Command {
	c := rates.Default()
	cmd := &cobra.Command{
		Use:   "rates",
		Short: "Check that schedules and rates are kept",
		Long: `Check what offers traffic at a rate: that requests go out when they are due, that streams
hold the rate they were asked for, and that latency beside a stream shows a core that
carries too much.

` + ratesSections(),
		Example: `  venturi-bench rates
  venturi-bench rates --only schedule,held`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cli.RunCheck(cmd.Context(), env, "bench", c) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.Sections, "only", nil, "sections to run (default all)")
	f.IntVar(&c.Series, "series", c.Series, "sets of fresh sockets")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "seed of the random order")
	return cmd
}

// ratesSections lists the sections for --help.
func ratesSections() string {
	var b strings.Builder
	b.WriteString("Sections:\n")
	for _, s := range rates.Sections {
		sanitize.Fprintf(&b, "  %-9s %s\n", s.Name, s.Summary)
	}
	return strings.TrimRight(b.String(), "\n")
}
