package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// fleetFlags let a command run on other machines in place of this one.
type fleetFlags struct {
	machinesFlag
	on []string
}

// machinesFile is where the machines are looked for that --on names.
const machinesFile = "machines.yaml"

// fleetRun is a command line that runs on other machines.
type fleetRun struct {
	*fleet.Fleet
	env      *Env
	machines []remote.Machine
	words    []string // its arguments, without flags
	flagSet  *pflag.FlagSet
	args     []string // of the command, without what is about the machines and the form of the output
	asJSON   bool
	flags    string // those that name the machines, for commands to suggest
	named    int    // machines in these flags
	reach    remote.Options
	say      func(format string, args ...any)
}

// onMachines lets a command run on other machines: with --machines or --on, do carries it
// out there.
func onMachines(env *Env, cmd *cobra.Command, do func(ctx context.Context, r *fleetRun) error) *cobra.Command {
	var ff fleetFlags
	f := cmd.Flags()
	f.StringVar(&ff.machines, "machines", "", "run on these machines over ssh: a=ssh://[USER@]HOST[:PORT],b=..., or a file such as "+machinesFile+";\nother flags name devices, namespaces and files on each machine")
	f.StringSliceVar(&ff.on, "on", nil, "run only on these machines, by name (without --machines, "+machinesFile+" in the current folder is read)")
	f.StringVar(&ff.ssh, "ssh", "ssh", "the ssh command for --machines, with its options")
	f.BoolVar(&ff.noCopy, "no-copy", false, "run the venturi on the machines' PATH instead of copying one there")
	local := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if ff.machines == "" && len(ff.on) == 0 {
			return local(cmd, args)
		}
		return ff.run(cmd, env, args, do)
	}
	return cmd
}

// run reaches the machines, and carries the command out on them.
func (ff *fleetFlags) run(cmd *cobra.Command, env *Env, words []string, do func(context.Context, *fleetRun) error) error {
	ctx := cmd.Context()
	if ff.machines == "" {
		ff.machines = machinesFile
	}
	q, err := ff.remote()
	if err != nil {
		return err
	}
	show := progress.New(env.Stderr)
	defer show.Done()
	r := &fleetRun{env: env, words: words, flagSet: cmd.Flags(), machines: q.Machines, named: len(q.Machines), say: show.Say}
	r.args, r.asJSON = withoutFleetFlags(env.Args)
	r.flags = sanitize.Command("--machines", ff.machines)
	if ff.ssh != "ssh" {
		r.flags += " " + sanitize.Command("--ssh", ff.ssh)
	}
	if len(ff.on) > 0 {
		if r.machines, err = chosenMachines(q.Machines, ff.on); err != nil {
			return err
		}
	}
	r.reach = q.Options
	err = do(ctx, r)
	if r.Fleet != nil {
		r.Close()
	}
	show.Done()
	return withInterruption(ctx, err)
}

// withInterruption is the error of a command that may have been interrupted: what was done in spite
// of that was done, and what went wrong beside it is told.
func withInterruption(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil || err == nil:
		return err
	case stopped(err) || verr.Code(err) == verr.Interrupted:
		return cause
	default:
		return errors.Join(cause, err)
	}
}

// open reaches the machines.
func (r *fleetRun) open(ctx context.Context) (err error) {
	r.Fleet, err = fleet.Open(ctx, r.machines, r.reach, r.say)
	return err
}

// suggest completes a command of some machine for being run from here.
func (r *fleetRun) suggest(command string, machines ...string) string {
	command += " " + r.flags
	if len(machines) < r.named {
		command += " --on " + strings.Join(machines, ",")
	}
	return command
}

// chosenMachines are those of these names.
func chosenMachines(all []remote.Machine, names []string) (chosen []remote.Machine, err error) {
	var known []string
	for _, m := range all {
		known = append(known, m.Name)
		if slices.Contains(names, m.Name) {
			chosen = append(chosen, m)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, verr.New(verr.Usage, "cannot run the command on machine "+name, "the machines are "+strings.Join(known, ", "), "choose from these with --on")
		}
	}
	return chosen, nil
}

// withoutFleetFlags takes out of a command line what is for this machine only.
func withoutFleetFlags(args []string) (rest []string, asJSON bool) {
	for i := 0; i < len(args); i++ {
		name, _, valued := strings.Cut(args[i], "=")
		switch name {
		case "--":
			return append(rest, args[i:]...), asJSON
		case "--machines", "--on", "--ssh":
			if !valued {
				i++
			}
		case "--no-copy":
		case "--json":
			asJSON = args[i] != "--json=false"
		default:
			rest = append(rest, args[i])
		}
	}
	return rest, asJSON
}

// trimFlags gives the arguments of the command without some flags, and their values.
func (r *fleetRun) trimFlags(flags ...string) (rest []string) {
	for i := 0; i < len(r.args); i++ {
		name, _, valued := strings.Cut(r.args[i], "=")
		if !slices.Contains(flags, name) {
			rest = append(rest, r.args[i])
			continue
		}
		if f := r.flagSet.Lookup(strings.TrimPrefix(name, "--")); f != nil && f.NoOptDefVal == "" && !valued {
			i++
		}
	}
	return rest
}

// withFlags adds flags to a command line, before whatever is no flag.
func withFlags(args []string, flags ...string) []string {
	end := len(args)
	if i := slices.Index(args, "--"); i >= 0 {
		end = i
	}
	return slices.Insert(slices.Clone(args), end, flags...)
}

// readByNumber is runEach for a command that names transactions.
func readByNumber(ctx context.Context, r *fleetRun) error {
	if err := r.checkNumbers(); err != nil {
		return err
	}
	return runEach(ctx, r)
}

// changeByNumber is that for a command that also needs root.
func changeByNumber(ctx context.Context, r *fleetRun) error {
	if err := r.checkNumbers(); err != nil {
		return err
	}
	return r.runOnEach(ctx)
}

// checkNumbers refuses numbers of transactions that could be on any of several machines.
func (r *fleetRun) checkNumbers() error {
	if len(r.words) > 0 && len(r.machines) > 1 {
		return verr.New(verr.Usage, "cannot choose transaction "+strings.Join(r.words, ", "), "each machine numbers its transactions separately", "name the machine with --on")
	}
	return nil
}

// runEach runs a command that only reads on all machines, and prints what it says on each.
func runEach(ctx context.Context, r *fleetRun) error {
	r.reach.AnyUser = true
	return r.runOnEach(ctx)
}

// runOnEach runs the command on all machines, and prints what it says on each.
func (r *fleetRun) runOnEach(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	args := r.args
	if r.asJSON {
		args = withFlags(args, "--json")
	}
	replies := r.Run(ctx, args)
	display.PrintStderr(r.env.Stderr, replies)
	if err := display.PrintReplies(r.env.Stdout, replies, r.asJSON); err != nil {
		return err
	}
	return joined(replies)
}

// commit makes the changes of the command on all machines, or on none of them. plan are the
// arguments with which it only says what it would do.
func (r *fleetRun) commit(ctx context.Context, plan []string, trial time.Duration) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	r.say("planning the changes")
	if err := joined(r.Run(ctx, withFlags(plan, "--plan", "--json"))); err != nil {
		return err
	}
	r.say("making the changes, on all machines or on none")
	replies := r.Commit(ctx, withFlags(r.args, "--json", "--hold"))
	display.PrintStderr(r.env.Stderr, replies)
	if err := joined(replies); err != nil {
		return err
	}
	for i, a := range replies {
		done, err := r.readCommit(a, trial > 0)
		if err != nil {
			return err
		}
		text, err := json.Marshal(done)
		if err != nil {
			return err
		}
		replies[i].Stdout = text
	}
	if r.asJSON {
		return display.PrintReplies(r.env.Stdout, replies, r.asJSON)
	}
	for _, a := range replies {
		var done display.CommitResult
		display.PrintMachine(r.env.Stdout, a)
		if err := errors.Join(json.Unmarshal(a.Stdout, &done), done.Print(r.env.Stdout, trial)); err != nil {
			return err
		}
	}
	return nil
}

// readCommit reads what a command has changed on a machine. Its commands are made here, to be run
// from here: those in the reply could be anything.
func (r *fleetRun) readCommit(a fleet.Reply, trial bool) (done display.CommitResult, err error) {
	if err := json.Unmarshal(a.Stdout, &done); err != nil {
		return done, fmt.Errorf("read what was changed on %s: %w", a.Machine.Name, err)
	}
	done.Undo, done.Confirm = "", ""
	var txns string
	for _, t := range done.Txns {
		txns += fmt.Sprintf(" %d", t.ID)
	}
	if txns == "" {
		return done, nil
	}
	done.Undo = r.suggest("venturi undo"+txns, a.Machine.Name)
	if trial {
		done.Confirm = r.suggest("venturi confirm"+txns, a.Machine.Name)
	}
	return done, nil
}

// joined is what went wrong on the machines; else the exit code that one of them has a
// finding with.
func joined(replies []fleet.Reply) error {
	code := verr.OK
	for _, a := range replies {
		code = max(code, a.Code)
	}
	if err := fleet.Failed(replies); err != nil || code == verr.OK {
		return err
	}
	return exitCode(code)
}

// runForAgent runs a command line that came over an agent's stream.
func runForAgent(env *Env) func(context.Context, agent.Invocation) int {
	return func(ctx context.Context, c agent.Invocation) int {
		run, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		unhook := context.AfterFunc(ctx, func() { cancel(errSignal) })
		defer unhook()
		return env.self.Run(run, &Env{
			Args: c.Args, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
			Getenv: env.Getenv, Environ: env.Environ, Exit: env.Exit,
		})
	}
}
