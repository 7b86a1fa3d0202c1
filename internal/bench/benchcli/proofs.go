package benchcli

import (
	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/bench"
	"github.com/venturi-net/venturi/internal/cli"
	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

func newProofs(env *cli.Env) *cobra.Command {
	c := bench.DefaultProofs()
	cmd := &cobra.Command{
		Use:   "proofs",
		Short: "Plant faults, and count how many of them a proof fixes",
		Long: `Plant a fault on a path of a lab, and let "tune --prove" search among the setting that
fixes it and ten placebos, which cannot matter. At least 95 % of the faults must be
fixed, and at most 2 % of the placebos kept. Faults: csum (checksum offload off on the
tunnel device), gro, seg (segmentation), bbr (instead of reno). By name only: rps (all
packets to one core, which helps streams if there are two cores), and, in a virtual
machine of venturi, backlog (a tiny one).

With --record you can interrupt after any proof: the same command later goes on with the
missing ones. Proofs of another build, budget, effect or seed do not count together.`,
		Example: `  venturi-bench proofs
  venturi-bench proofs --record proofs.jsonl --repeat 10
  venturi-bench proofs --fault csum --repeat 1`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cpus, err := host.AllowedCPUs()
			if err != nil {
				return err
			}
			if len(cpus) < 2 {
				return verr.New(verr.Missing, "cannot check proofs", "this machine has one core, where some of the faults do no harm", "use a machine with at least two cores")
			}
			c.Build = cli.Build()
			c.LastCPU, c.Machine = cpus[len(cpus)-1], knob.Machine{Settings: setting.NewSettings(tune.Backends("")...)}
			first := host.Reader{}.Command(1)
			c.Guest = len(first) > 1 && first[1] == guest.Role
			if c.Journal, err = cli.OpenJournal(env); err != nil {
				return err
			}
			defer c.Journal.Close()
			return cli.RunCheck(cmd.Context(), env, "bench", c)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.Faults, "fault", nil, "faults to plant (default all)")
	f.IntVar(&c.Repeat, "repeat", c.Repeat, "proofs of each fault")
	f.DurationVar(&c.Budget, "budget", c.Budget, "time for one proof")
	cli.OnceVar(f, &c.Record, "record", "file to append finished proofs to; the proofs in it count towards --repeat")
	cli.EffectVar(f, &c.MDE, "effect", "refuse if nothing as small as this could be shown")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "seed of the random order")
	return cmd
}
