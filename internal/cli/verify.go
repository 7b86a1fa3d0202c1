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
		Short: "Check the instrument itself, on this machine",
		Long: `Check the instrument itself, on this machine: that its figures agree with those of
well-known tools, and that its verdicts are right as often as promised. Each check prints
its measurements and whether they meet its limits; exit code 1 means that one does not.
Run nothing else on the machine meanwhile.`,
		Example: `  venturi verify agree      against qperf, iperf3, ping and others, about 20 minutes
  venturi verify stats      false alarms and missed differences, about half an hour`,
	}
	cmd.AddCommand(newVerifyAgree(env), newVerifyStats(env), movedToBench("proofs"), movedToBench("fast"))
	return cmd
}

// Check measures something, prints it, and fails if a bar does not hold.
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
		Long: `Run the real qperf, iperf3 and ping, and netperf and sockperf if they are installed, on
the host path of a lab, in turn with Venturi's own loads: same link, same cores, same
socket buffers, one message per system call. The median of the paired ratios must be
between 0.95 and 1.05, and Venturi's loads must not cost more CPU time per byte or
packet.`,
		Example: `  venturi verify agree
  venturi verify agree --pairs 6
  venturi verify agree --with qperf --load tcp_bw`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return RunCheck(cmd.Context(), env, "verify", c) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.Tools, "with", nil, "only these tools")
	f.StringSliceVar(&c.Loads, "load", nil, "only these loads")
	f.IntVar(&c.Pairs, "pairs", c.Pairs, "runs of each tool, and of Venturi, per load")
	f.DurationVar(&c.Slice, "slice", c.Slice, "length of a run; whole seconds, at least 2s")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "seed of the random order")
	return cmd
}

func newVerifyStats(env *Env) *cobra.Command {
	c := verify.DefaultStats()
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count false alarms and missed differences",
		Long: `Make many comparisons of two identical paths, and many in which one path's responder is
busy for a known share of the round trip, in random order. Count how often the verdicts
are wrong, and hold the counts against bars.

` + statsSections(),
		Example: `  venturi verify stats
  venturi verify stats --only decided,pairs
  venturi verify stats --only verdicts --same 20 --slower 10 --effect 5%`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return RunCheck(cmd.Context(), env, "verify", c) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.Sections, "only", nil, "sections to run (default all)")
	f.IntVar(&c.Identical, "same", c.Identical, "comparisons of identical paths")
	f.IntVar(&c.Slower, "slower", c.Slower, "comparisons with a slower path")
	f.Var((*share)(&c.Effect), "effect", "how much slower the slower path is")
	f.Var((*share)(&c.Margin), "margin", "differences within this are \"same\"")
	f.DurationVar(&c.Budget, "budget", c.Budget, "time for one comparison")
	f.DurationVar(&c.Slice, "slice", c.Slice, "length of a slice")
	f.IntVar(&c.Runs, "runs", c.Runs, "runs until decided, for each size of a difference")
	f.IntVar(&c.Replays, "replays", c.Replays, "runs replayed from recorded series")
	f.IntVar(&c.Pairs, "pairs", c.Pairs, "pairs of records, with and without a difference")
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
