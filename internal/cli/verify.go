package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/host"
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
well-known tools, and that its verdicts are right as often as they promise. Each check
prints what it measured and whether its bars hold; exit code 1 means that one does not.
Let the machine do nothing else meanwhile.`,
		Example: `  venturi verify agree      against qperf and iperf3, about 15 minutes
  venturi verify stats      false alarms and missed differences, about 25 minutes
  venturi verify proofs     faults that tune --prove must mend, up to 5 hours
  venturi verify fast       how near the fast path comes to the host network, about an hour`,
	}
	cmd.AddCommand(newVerifyAgree(env), newVerifyStats(env), newVerifyProofs(env), newVerifyFast(env))
	return cmd
}

// check is what all checks look like from here.
type check interface {
	Check(ctx context.Context, w io.Writer, h compare.Host) error
}

func runCheck(ctx context.Context, env *Env, c check) error {
	program, err := program()
	if err != nil {
		return err
	}
	return c.Check(ctx, sanitize.Writer{W: env.Stdout}, compare.Host{Version: Version(), Program: program,
		LabName: "verify", Watch: progress.Silent(env.Stderr)})
}

func newVerifyAgree(env *Env) *cobra.Command {
	c := verify.DefaultAgree()
	cmd := &cobra.Command{
		Use:   "agree",
		Short: "Compare our figures with those of qperf and iperf3",
		Long: `Run the real qperf and iperf3 on the host path of a lab, in turn with our own loads:
same link, same cores, same socket buffers, one message per system call.
The median of the paired ratios must be within 0.95 and 1.05, and our loads must
not cost more CPU time per byte or packet than theirs.`,
		Example: `  venturi verify agree
  venturi verify agree --pairs 6`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCheck(cmd.Context(), env, c) },
	}
	f := cmd.Flags()
	f.IntVar(&c.Pairs, "pairs", c.Pairs, "runs of each tool and of ours, per load")
	f.DurationVar(&c.Slice, "slice", c.Slice, "length of a run; whole seconds, 2s at least")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "seed of the random order")
	return cmd
}

func newVerifyStats(env *Env) *cobra.Command {
	c := verify.DefaultStats()
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count false alarms and missed differences",
		Long: `Make many comparisons of two identical paths, and many in which the responder of one is
busy for a known share of the round trip, in random order. At most 8 % of the first may
end in faster or slower; at least 90 % of the others must end in slower.`,
		Example: `  venturi verify stats
  venturi verify stats --same 20 --slower 10 --effect 5% --budget 10s`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCheck(cmd.Context(), env, c) },
	}
	f := cmd.Flags()
	f.IntVar(&c.Same, "same", c.Same, "comparisons of identical paths")
	f.IntVar(&c.Slower, "slower", c.Slower, "comparisons with a slower path")
	f.Var((*share)(&c.Effect), "effect", "how much slower the slower path is")
	f.Var((*share)(&c.Margin), "margin", "differences within this are \"same\"")
	f.DurationVar(&c.Budget, "budget", c.Budget, "time for one comparison")
	f.DurationVar(&c.Slice, "slice", c.Slice, "time that a path is measured at a stretch")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "seed of the random order")
	return cmd
}

func newVerifyProofs(env *Env) *cobra.Command {
	c := verify.DefaultProofs()
	cmd := &cobra.Command{
		Use:   "proofs",
		Short: "Plant faults, and count which of them a proof mends",
		Long: `Put something wrong on a path of a lab, and let "tune --prove" search among what
mends it and ten changes that cannot matter. At least 95 % of the faults must be
mended, and at most 2 % of the ten be kept. Faults: csum (checksum offload off on the
tunnel device), gro, seg (segmentation), bbr (for reno). By name only: rps (all on one
core, which is a gain for streams where there are two), and, in a virtual machine of
venturi, backlog (a tiny one).

With --record many proofs can be made in several sittings: it can be interrupted
after any of them, and the same command goes on with those that are missing.
Proofs of another build, budget, effect or seed do not count together.`,
		Example: `  venturi verify proofs
  venturi verify proofs --record proofs.jsonl --repeat 10
  venturi verify proofs --fault csum --repeat 1`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cpus, err := host.AllowedCPUs()
			if err != nil {
				return err
			}
			if len(cpus) < 2 {
				return verr.New(verr.Missing, "cannot check proofs", "this machine has one core, and some of the faults are none there", "run it on a machine with two cores or more")
			}
			c.Build = Version() + " " + revision()
			c.LastCPU, c.Machine = cpus[len(cpus)-1], thisMachine()
			first := host.Reader{}.Command(1)
			c.Guest = len(first) > 1 && first[1] == guest.Role
			if c.Journal, err = openJournal(env, journalWait); err != nil {
				return err
			}
			defer c.Journal.Close()
			return runCheck(cmd.Context(), env, c)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.Faults, "fault", nil, "faults to plant (default all)")
	f.IntVar(&c.Repeat, "repeat", c.Repeat, "proofs of each fault")
	f.DurationVar(&c.Budget, "budget", c.Budget, "time for one proof")
	f.Var(onceFlag{&c.Record}, "record", "file that each finished proof is added to; those that it holds count towards\n--repeat, and are not made again")
	f.Var(effect{(*share)(&c.MDE)}, "effect", "refuse if nothing as small as this could be shown")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "seed of the random order")
	return cmd
}

func newVerifyFast(env *Env) *cobra.Command {
	c := verify.DefaultFast()
	cmd := &cobra.Command{
		Use:   "fast",
		Short: "Hold the fast path against the host network",
		Long: `Measure pods with and without the fast path, against the host network and against
each other, section by section. The better end of each interval must reach its bar;
that of rewritten rules is beside what the same path does while they are left alone.

` + fastSections(),
		Example: `  venturi verify fast
  venturi verify fast --only connections,parallel
  venturi verify fast --only plain --budget 15m`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCheck(cmd.Context(), env, c) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.Only, "only", nil, "sections to run (default all)")
	f.DurationVar(&c.Budget, "budget", 0, "time for each comparison, in place of what is listed")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "seed of the random order")
	return cmd
}

// fastSections lists the sections for --help.
func fastSections() string {
	var b strings.Builder
	b.WriteString("Sections, with the time for each of their comparisons:\n")
	for _, s := range verify.FastSections {
		budget := "-"
		if s.Budget > 0 {
			budget = strings.TrimSuffix(s.Budget.String(), "0s")
		}
		sanitize.Fprintf(&b, "  %-12s %-3s %s\n", s.Name, budget, s.Summary)
	}
	return strings.TrimRight(b.String(), "\n")
}
