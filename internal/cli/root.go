// Package cli is the command line: one file a sub-command, and no logic. A
// command reads its flags, refuses what makes no sense, calls the package that
// does the work, and hands its error back; this file prints the error and
// chooses the exit code.
package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/verr"
)

// commands are the sub-commands, in the order in which help shows them. A new
// command is one file and one line here.
var commands = []func(*Env) *cobra.Command{
	newCompare,
	newStudy,
	newVerify,
	newAgent,
	newSpeaker, newFastpath,
	newGuest,
	newIperf3, newIperf3Server,
	newReport,
	newWatch,
	newDoctor,
	newMesh,
	newKnob,
	newTune,
	newUndo,
	newJournal,
	newConfirm,
	newLease,
	newLab,
	newPath,
	newKernel,
	newKube,
	newVersion,
	newExitCodes,
}

const longHelp = `Venturi measures how much slower or faster virtual networks are than the host
network, with a confidence interval, and helps to close the gap.

Measure with "compare", in a Kubernetes cluster with "kube compare". Find problems of this host
with "doctor". Close the gap with "tune", which proves which settings help ("undo" restores
every byte), and with "fastpath", which carries pods' flows past the overlay.

Measurements run in a lab unless you name pods, machines or namespaces. A lab is two or more
machines, played by network namespaces that Venturi creates and removes. Only "venturi knob
set", "venturi tune" with --apply or --prove, and "venturi fastpath enable" and "shadow"
change this machine's own network; "venturi undo" restores it.`

// product is the program of users.
func product() CommandLine {
	return CommandLine{
		Name:  "venturi",
		Short: "Measure virtual networks against the host network",
		Long:  longHelp,
		Example: `  venturi compare                       host, routed and vxlan, the default loads, about 90 s
  venturi compare vxlan --load tcp_lat  one path, one load
  venturi report                        the report of the newest run
  venturi knob get --all                the current value of everything that can be tuned here
  venturi fastpath plan                 what the fast path would carry on this node; changes nothing
  venturi undo                          restore what was changed
  venturi lab down                      remove what a killed run left behind`,
		Commands: commands,
	}
}

// Run runs one command line of venturi, as [CommandLine.Run] does.
func Run(ctx context.Context, env *Env) int { return product().Run(ctx, env) }

// Run runs one command line and returns the exit code of the process. Results
// go to env.Stdout; errors and progress go to env.Stderr.
func (p CommandLine) Run(ctx context.Context, env *Env) int {
	env.self = p
	ctx, stop := withSignals(ctx, env)
	defer stop()
	failed := p.execute(ctx, env)
	code := verr.OK
	if len(failed) > 0 {
		code = verr.Code(failed[0])
	}
	if elsewhere := exitCode(0); len(failed) > 0 && errors.As(failed[0], &elsewhere) {
		code, failed = int(elsewhere), failed[1:]
	}
	if len(failed) == 0 {
		return code
	}
	for _, also := range failed[1:] {
		verr.Print(env.Stderr, also)
	}
	verr.Print(env.Stderr, failed[0])
	return code
}

// execute runs the command and gives what failed: first what it was asked for,
// then what else did, such as taking down what had been built.
func (p CommandLine) execute(ctx context.Context, env *Env) []error {
	started := false
	root := p.commandTree(env, &started)
	// cobra takes the process's own arguments when it is given nil.
	root.SetArgs(append([]string{}, env.Args...))
	if err := unknownBeforeHelp(root, env.Args); err != nil {
		return []error{err}
	}
	cmd, err := root.ExecuteContextC(ctx)
	failed := splitJoined(err)
	switch {
	case err == nil:
		return nil
	case !started:
		// Not one line of a command has run, so it was the command line.
		return []error{usage(cmd, err)}
	case errors.As(failed[0], new(exitCode)):
		return failed
	case errors.Is(failed[0], syscall.EPIPE) && context.Cause(ctx) == errSignal:
		failed[0] = errPipeClosed // nobody is there to be told
		return failed
	case stopped(err) && context.Cause(ctx) == errSignal:
		return interrupted(slices.DeleteFunc(failed, stopped))
	}
	failed[0] = unforeseen(cmd.CommandPath(), failed[0])
	return failed
}

// unforeseen gives three parts to an error of a command that has none by now: nobody foresaw it.
func unforeseen(command string, err error) error {
	return verr.Wrap(verr.Failed, "cannot finish "+command, err,
		`if the reason does not show what to do, report it with the output of "venturi version"`)
}

// errPipeClosed is how a command ends whose reader has gone: as a shell tells of those
// that SIGPIPE ends.
const errPipeClosed = exitCode(bySignal + int(syscall.SIGPIPE))

// splitJoined returns the errors that were joined into one. Those that stand in one
// sentence, as fmt.Errorf puts them, stay together.
func splitJoined(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(joined.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, splitJoined(e)...)
	}
	return all
}

// stopped tells whether a command ended because its context did.
func stopped(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, errSignal)
}

// interrupted is what to tell of a command that a signal ended, when also failed
// too.
func interrupted(also []error) []error {
	do := "run the command again; nothing was left behind"
	for _, err := range also {
		if verr.Code(err) == verr.Failed {
			do = removeRest
		}
	}
	return append([]error{verr.Wrap(verr.Interrupted, "stopped before the end", errSignal, do)}, also...)
}

// removeRest is what to do when taking down did not succeed.
const removeRest = "remove what is left behind with `venturi lab down`"

// commandTree builds the command with all that is below it. A command sets
// *started when its own code begins.
func (p CommandLine) commandTree(env *Env, started *bool) *cobra.Command {
	root := &cobra.Command{
		Use:           p.Name,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: strings.Replace(p.Name, "kubectl-", "kubectl ", 1)},
		Short:         p.Short,
		Long:          p.Long,
		Example:       p.Example,
		Version:       Version(),
		SilenceErrors: true, // Run prints them, in three parts
		SilenceUsage:  true,
	}
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	for _, construct := range p.Commands {
		root.AddCommand(construct(env))
	}
	root.SetHelpCommand(newHelp(root))
	// A command that only has sub-commands is not run by itself: do not show it so.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(),
		"{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1))
	applyConventions(root, started)
	return root
}

// applyConventions applies the house rules to every command of the tree: wrong arguments are
// refused by one rule, and *started tells whether a command's own code ran.
func applyConventions(cmd *cobra.Command, started *bool) {
	if cmd.HasSubCommands() && cmd.RunE == nil && cmd.Run == nil {
		cmd.Args = noSuchCommand
		cmd.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(c *cobra.Command, args []string) error {
			*started = true
			return run(c, args)
		}
	}
	for _, sub := range cmd.Commands() {
		applyConventions(sub, started)
	}
}

// noSuchCommand refuses whatever follows a command that only has sub-commands.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	do := fmt.Sprintf("see %q", cmd.CommandPath()+" --help")
	if cmd.SuggestionsMinimumDistance == 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		do = fmt.Sprintf("did you mean %q? If not, %s", cmd.CommandPath()+" "+near[0], do)
	}
	return verr.New(verr.Usage, "cannot run "+cmd.CommandPath()+" "+args[0],
		fmt.Sprintf("%q has no command %q", cmd.CommandPath(), args[0]), do)
}

// noArgs is for commands that take none.
func noArgs(cmd *cobra.Command, args []string) error { return atMost(0)(cmd, args) }

// atMost refuses more than n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= n {
			return nil
		}
		return fmt.Errorf("unexpected argument %q%s", args[n], meantForFlag(cmd, args[n]))
	}
}

// meantForFlag says how to give an argument to a flag whose value may be left out: after a space it
// is not the flag's.
func meantForFlag(cmd *cobra.Command, argument string) (hint string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" && f.Value.Type() != "bool" {
			hint = fmt.Sprintf("; if it belongs to --%s, write --%[1]s=%s", f.Name, argument)
		}
	})
	return hint
}

// usage turns what cobra says about a command line into a three-part error.
func usage(cmd *cobra.Command, err error) error {
	if known := new(verr.Error); errors.As(err, &known) {
		return err
	}
	if cmd == nil {
		cmd = &cobra.Command{Use: "venturi"}
	}
	do := fmt.Sprintf("see %q", cmd.CommandPath()+" --help")
	if strings.HasPrefix(cmd.CommandPath(), "venturi fastpath ") && slices.Contains([]string{"unknown flag: --dry-run", "unknown flag: --plan"}, err.Error()) {
		do = "see what would be carried, without changing anything, with: venturi fastpath plan"
	} else if near := nearestFlag(cmd, err.Error()); near != "" {
		do = fmt.Sprintf("did you mean --%s? If not, %s", near, do)
	}
	why, _, _ := strings.Cut(err.Error(), "\n") // cobra appends suggestions as a block
	return verr.Wrap(verr.Usage, "cannot understand the command line of "+cmd.CommandPath(), errors.New(plainUsage(cmd, why)), do)
}
