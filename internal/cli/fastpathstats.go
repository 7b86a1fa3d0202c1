package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/verr"
)

func fastpathStats(out io.Writer) *cobra.Command {
	asJSON, top := false, 10
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show why packets and flows stay on the slow path, by reason, pod and peer",
		Long: `Show why packets stayed on the slow path since the fast path was enabled: for each reason the
number of packets, their share of all packets, and whether they came out of a pod or went into
one. The first packets of a connection are always slow, so short connections show here.

Then it lists the pods and peers with the most flows that are not carried now, and why:

  learning  a few more packets must take the slow path first
  stale     rules, a pod or a peer have changed; the next packets decide
  one way   carried in one direction; no packet of the other has been forwarded yet

If IPv6 is carried, its figures follow. "venturi fastpath status" shows whether the fast path
runs and what it carries. The exit code is 4 if there is no fast path here.`,
		Example: "  venturi fastpath stats\n  venturi fastpath stats --top 3\n  venturi fastpath stats --json | jq '.reasons[] | select(.share > 0.01)'",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if top < 1 {
				return verr.New(verr.Usage, "cannot show so few pods and peers", "--top is less than 1", "give a number such as 10")
			}
			s, err := readStatus()
			if err != nil {
				return err
			}
			if !s.Enabled {
				return verr.New(verr.Missing, "cannot show why packets are slow", "there is no fast path here", "enable one with: venturi fastpath enable")
			}
			stats := display.NewFastPathStats(s, top)
			if asJSON {
				return display.PrintJSON(out, stats)
			}
			return stats.Print(out)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	cmd.Flags().IntVar(&top, "top", top, "list this many pods and this many peers")
	return cmd
}
