package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verify"
	"github.com/venturi-net/venturi/internal/verr"
)

func newVerify(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check on this host that Venturi's figures and verdicts can be trusted",
		Long: `Check Venturi itself on this host: that its figures agree with those of well-known tools
("agree"), and that its verdicts are wrong no more often than promised ("stats").

Each check measures in a lab, prints every result as it comes, and then each of its limits,
as "holds" or "MISSED". The exit code is 1 if a limit is missed. A check needs root, and a
host that does nothing else meanwhile.`,
		Example: `  venturi verify agree      compare with qperf, iperf3, ping and others: about 20 minutes
  venturi verify stats      count false alarms and missed differences: about half an hour`,
	}
	cmd.AddCommand(newVerifyAgree(env), newVerifyStats(env), movedToBench("proofs"), movedToBench("fast"))
	return cmd
}

// Check measures something, prints it, and fails if a limit is missed.
type Check interface {
	Check(ctx context.Context, w io.Writer, h compare.Host) error
}

// RunCheck runs a check in labs of that name.
func RunCheck(ctx context.Context, env *Env, lab string, c Check) error {
	program, err := program()
	if err != nil {
		return err
	}
	return c.Check(ctx, sanitize.Writer{W: env.Stdout}, compare.Host{Version: Version(), Program: program,
		LabName: lab, Watch: progress.Silent(env.Stderr)})
}

// movedToBench tells who calls a check by its old name where it is now.
func movedToBench(name string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return verr.New(verr.Usage, "cannot run venturi verify "+name, "Venturi's own benchmarks are in a separate program, venturi-bench",
				"build it in the source tree with `make bin/venturi-bench`, and run: venturi-bench "+name)
		},
	}
}

func newVerifyAgree(env *Env) *cobra.Command {
	c := verify.DefaultAgree()
	cmd := &cobra.Command{
		Use:   "agree",
		Short: "Compare Venturi's figures with those of qperf, iperf3, ping, netperf and sockperf",
		Long: `Run the real tools on the host path of a lab, in turn with Venturi's own loads: same link,
same cores, same socket buffers, one message per system call. It needs qperf, iperf3 and
ping; netperf and sockperf are left out if they are not installed and --with does not name them.

For each load and tool it prints the ratio of Venturi's figure to the tool's, as the median
over all pairs of runs with its 95 % interval. The limits:

  ratio  from 0.95 to 1.05, except for datagrams of iperf3, which spends more on each
  rate   of tcp_bw and udp_bw, the interval reaches 0.97 of the tool's rate or more
  CPU    of tcp_bw and udp_bw, the interval reaches 1.05 of the tool's CPU time per byte or
         packet, or less`,
		Example: `  venturi verify agree
  venturi verify agree --pairs 6
  venturi verify agree --with qperf --load tcp_bw`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return RunCheck(cmd.Context(), env, "verify", c) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.Tools, "with", nil, "compare with these tools only: qperf, iperf3, ping, netperf, sockperf (default: all)")
	f.StringSliceVar(&c.Loads, "load", nil, "compare these loads only: tcp_lat, udp_lat, tcp_bw, udp_bw, ping (default: all)")
	f.IntVar(&c.Pairs, "pairs", c.Pairs, "pairs of runs per load and tool, one by the tool and one by Venturi: 1 to 1000")
	f.DurationVar(&c.Slice, "slice", c.Slice, "length of one run, in whole seconds, at least 2s")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "seed of the random order")
	return cmd
}

func newVerifyStats(env *Env) *cobra.Command {
	c := verify.DefaultStats()
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count false alarms and missed differences",
		Long: `Count how often verdicts are wrong, and compare the counts with the limits below. In random
order, it makes many comparisons of two identical paths, and many in which the responder of
one path is kept busy for a known share of the round trip, with the loads tcp_lat and
udp_lat in turn.

` + statsSections(),
		Example: `  venturi verify stats
  venturi verify stats --only decided,pairs
  venturi verify stats --only verdicts --same 20 --slower 10 --effect 5%`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return RunCheck(cmd.Context(), env, "verify", c) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.Sections, "only", nil, "run these sections only, separated by commas (default: all)")
	f.IntVar(&c.Identical, "same", c.Identical, "with verdicts and anytime, comparisons of identical paths")
	f.IntVar(&c.Slower, "slower", c.Slower, "with verdicts, comparisons with a slower path")
	f.Var((*share)(&c.Effect), "effect", "with verdicts, how much slower the slower path is")
	f.Var((*share)(&c.Margin), "margin", "differences within this are \"same\" (in pairs: within 3%)")
	f.DurationVar(&c.Budget, "budget", c.Budget, "time for one comparison in verdicts and anytime")
	f.DurationVar(&c.Slice, "slice", c.Slice, "length of a slice")
	f.IntVar(&c.Runs, "runs", c.Runs, "with decided, runs for each size of a difference")
	f.IntVar(&c.Replays, "replays", c.Replays, "with anytime, runs replayed from recorded series")
	f.IntVar(&c.Pairs, "pairs", c.Pairs, "with pairs, pairs of records without a difference, and as many with one")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "seed of the random order")
	return cmd
}

// statsSections lists the sections for --help.
func statsSections() string {
	var b strings.Builder
	b.WriteString("Sections, which share their comparisons of identical paths:\n")
	for _, s := range verify.StatsSections {
		sanitize.Fprintf(&b, "  %-9s %s\n", s.Name, s.Summary)
	}
	return strings.TrimRight(b.String(), "\n")
}
