package benchcli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/bench"
	"github.com/venturi-net/venturi/internal/cli"
	"github.com/venturi-net/venturi/internal/sanitize"
)

func newFast(env *cli.Env) *cobra.Command {
	c := bench.DefaultFastPath()
	cmd := &cobra.Command{
		Use:   "fast",
		Short: "Compare the fast path with the host network",
		Long: `Measure pods with and without the fast path, against the host network and against
each other, section by section. The better end of each interval must reach its limit.
The path with rewritten rules is compared with the same path while nobody rewrites them.

` + fastSections(),
		Example: `  venturi-bench fast
  venturi-bench fast --only connections,parallel
  venturi-bench fast --only plain --budget 15m`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cli.RunCheck(cmd.Context(), env, "bench", c) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.Sections, "only", nil, "sections to run (default all)")
	f.DurationVar(&c.Budget, "budget", 0, "time for each comparison, in place of what is listed")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "seed of the random order")
	return cmd
}

// fastSections lists the sections for --help.
func fastSections() string {
	var b strings.Builder
	b.WriteString("Sections, with the time for each of their comparisons:\n")
	for _, s := range bench.Sections {
		budget := "-"
		if s.Budget > 0 {
			budget = strings.TrimSuffix(s.Budget.String(), "0s")
		}
		sanitize.Fprintf(&b, "  %-12s %-3s %s\n", s.Name, budget, s.Summary)
	}
	return strings.TrimRight(b.String(), "\n")
}
