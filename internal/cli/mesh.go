package cli

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/mesh"
	"github.com/venturi-net/venturi/internal/mesh/meshreport"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// meshRun is what the command line of mesh asks for.
type meshRun struct {
	o            mesh.Options
	loads        []string
	format       string
	asJSON, wait bool
	out, read    string
}

func (m *meshRun) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&m.loads, "load", mesh.DefaultLoads, "loads, comma-separated: a stream is measured in both directions")
	f.DurationVar(&m.o.Budget, "budget", 0, "time for all passes (default: 6 s a node, at least 1m)")
	f.IntVar(&m.o.Passes, "passes", mesh.DefaultPasses, "measure every pair at most this many times")
	f.IntVar(&m.o.Parallel, "parallel", 0, "measure at most this many pairs at a time (default: half of the nodes)")
	f.Float64Var(&m.o.Margin, "margin", mesh.DefaultMargin, "a node or pair is slow if it is slower than the rest leads to expect by more than this share")
	f.StringVar(&m.format, "format", meshreport.Formats()[0], "one of "+strings.Join(meshreport.Formats(), ", "))
	f.BoolVar(&m.asJSON, "json", false, "the same as --format json")
	f.StringVar(&m.out, "out", "", "also keep the result in this file, as JSON")
	f.StringVar(&m.read, "read", "", "measure nothing: print the result in this file")
	f.BoolVar(&m.wait, "wait", false, "wait for another run to end")
}

// meshHelp is what the two commands have in common.
const meshHelp = `
The answer names
  - slow nodes: all pairs of the node are slower;
  - slow pairs: a pair is slower than its nodes are to all others;
  - pairs without traffic, and nodes that were not reached or were lost.

How it is measured: in rounds, as a round-robin tournament. In each round every node is in one
pair at most, so 100 nodes take 99 rounds, not 4,950 turns. A turn is three slices of 25 to 50
ms. Passes over all pairs are repeated in random order, at most 20 of them, until the budget is
spent: a machine that is busy for some seconds slows other pairs in each pass.

How it is judged: the figure of each pair is modelled as a level common to all, plus an effect
of each of its two nodes, plus an effect of its own. A node or pair is slow if it is more than
5 % (--margin) slower than the rest leads to expect, by permutation tests: at most 5 % of all
runs name something that is not slow. The table also says how many times slower a node or pair
would have to be to be named. Judging takes 6 nodes and 3 passes; with fewer, the pairs are
only measured.
`

const meshExit = `
The exit code is 0 if nothing is slow, 8 if a node or pair is slow or a pair has no traffic,
else 7 if a node was not measured to the end.`

// newMesh is mesh between machines.
func newMesh(env *Env) *cobra.Command {
	var m meshRun
	var far machinesFlag
	cmd := &cobra.Command{
		Use:   "mesh",
		Short: "Measure between all of several machines, and name the slow machines and pairs",
		Long: `Measure between all of several machines, pair by pair, and name the machines and pairs that
are slower than the rest. (For the nodes of a Kubernetes cluster: "kubectl venturi mesh".)
` + meshHelp + `
An agent on each machine is started over ssh, as for "venturi compare --machines". No other run
may measure on any of them.
` + meshExit,
		Example: `  venturi mesh --machines machines.yaml
  venturi mesh --machines a=ssh://root@10.0.0.1,b=ssh://root@10.0.0.2,c=ssh://root@10.0.0.3
  venturi mesh --machines machines.yaml --out mesh.json
  venturi mesh --read mesh.json --format html > mesh.html`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if far.machines == "" && m.read == "" {
				return verr.New(verr.Usage, "cannot measure between machines", "--machines is missing", "name the machines with --machines; for a cluster use `kubectl venturi mesh`")
			}
			q, err := far.remote()
			if err != nil {
				return err
			}
			return m.run(cmd.Context(), env, func(ctx context.Context, o mesh.Options) (*mesh.Survey, error) {
				return mesh.MeasureMachines(ctx, mesh.MachinesRequest{Options: o, Machines: q.Machines, Remote: q.Options,
					Command: sanitize.Command(append([]string{"venturi"}, env.Args...)...), Wait: m.wait})
			})
		},
	}
	f := cmd.Flags()
	m.flags(f)
	f.StringVar(&far.machines, "machines", "", "measure between these machines over ssh: a=ssh://[USER@]HOST[:PORT][?addr=ADDRESS],b=...,\nor a file that lists them")
	f.StringVar(&far.ssh, "ssh", "ssh", "the ssh command for --machines, with its options")
	f.BoolVar(&far.noCopy, "no-copy", false, "run the venturi on the machines' PATH instead of copying one there")
	return cmd
}

// run measures, or reads what was measured, and prints it.
func (m *meshRun) run(ctx context.Context, env *Env, measure func(context.Context, mesh.Options) (*mesh.Survey, error)) (err error) {
	if m.asJSON {
		m.format = "json"
	}
	if err := checkFormat("cannot print a mesh", m.format, meshreport.Formats()); err != nil {
		return err
	}
	if m.read != "" {
		r, err := mesh.Read(m.read)
		if err != nil {
			return err
		}
		return m.print(env, r)
	}
	if m.o.Passes < 1 || m.o.Parallel < 0 || m.o.Budget < 0 || !(m.o.Margin >= 0 && m.o.Margin < 10) {
		return verr.New(verr.Usage, "cannot measure a mesh", "--passes, --parallel, --budget or --margin is out of range", "give at least 1 pass, no negative number, and a margin such as 0.05")
	}
	if m.o.Loads, err = mesh.FindLoads(m.loads); err != nil {
		return err
	}
	var file *os.File
	if m.out != "" {
		if file, err = mesh.CreateFile(m.out); err != nil {
			return err
		}
		defer file.Close() // again, if there was nothing to keep
	}
	show := progress.New(env.Stderr)
	defer show.Done()
	m.o.Say, m.o.Seed = show.Say, rand.Uint64()
	r, err := measure(ctx, m.o)
	show.Done()
	if r == nil {
		return err
	}
	r.Command = append([]string{env.self.Name}, slices.Clone(env.Args)...)
	if file != nil {
		err = errors.Join(err, r.Save(file))
	}
	if err != nil {
		printed := m.print(env, r)
		if errors.As(printed, new(exitCode)) {
			printed = nil // what failed says more
		}
		return errors.Join(err, printed)
	}
	return m.print(env, r)
}

// print prints a report; its error is the exit code that the findings give.
func (m *meshRun) print(env *Env, r *mesh.Survey) error {
	if err := meshreport.Write(env.Stdout, r, m.format, display.TerminalWidth(env.Stdout)); err != nil {
		return printed("cannot print the mesh", err)
	}
	if code := r.ExitCode(); code != verr.OK {
		return exitCode(code)
	}
	return nil
}
