package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

func newLab(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Raise a lab by hand, inspect it, run commands in it, take it down",
		Long: `A lab has two or more machines, called m1, m2 and so on. Each is a network namespace; a
wire joins them, and each path between them has its own pods. "venturi compare" raises
a lab for a run and takes it down again. With these commands a lab stays until you take
it down, so you can see how a path is built or try something in it.

Everything in a lab carries its name: the namespaces venturi.LAB.m1, venturi.LAB.m2
and those of pods and switches, such as venturi.LAB.m1.vxlan, and the folder
` + lab.Folder + `/LAB.`,
		Example: `  venturi lab up
  venturi lab exec m1/vxlan -- ip route
  venturi lab down`,
	}
	cmd.AddCommand(labUp(env), labList(env.Stdout), labExec(env), labDown(env.Stdout))
	return cmd
}

// program starts this very program, whatever its name.
func program() ([]string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	return []string{exe}, nil
}

func labUp(env *Env) *cobra.Command {
	var (
		o      = lab.Options{Keep: true}
		u      kernelFlag
		wire   string
		cores  string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "up [PATH...]",
		Short: "Raise a lab that stays until it is taken down",
		Long: `Raise the machines, the wire between them, and every PATH. A path that is named twice
is built twice, the second as PATH.2. Options follow the name after a colon; "venturi
path show PATH" lists them.

Paths:
` + display.PathHelp(),
		Example: `  venturi lab up                              host, routed and vxlan
  venturi lab up vxlan vxlan:port=4789        two overlays side by side
  venturi lab up --hosts 5 bgp:reflector=1    five machines, one of them a route reflector
  venturi lab up --wire tso=off,gro=on        network cards without TSO
  venturi lab up --cores "m1=0 m2=1"          each machine on its own core
  venturi lab up --name busy --services 1000  behind a node's packet filter
  venturi lab up --kernel 6.1 geneve          in a virtual machine, under another kernel`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o.Paths = args
			if len(args) == 0 {
				o.Paths = []string{"host", "routed", "vxlan"}
			}
			if o.Wire, err = lab.ParseWire(wire); err != nil {
				return err
			}
			if o.Cores, err = lab.ParseCores(cores); err != nil {
				return err
			}
			if o.Program, err = program(); err != nil {
				return err
			}
			o.AgentCommand = append(slices.Clone(o.Program), "agent")
			elsewhere, err := u.runsInGuest(env)
			if err != nil {
				return err
			}
			raise := lab.Up
			if elsewhere {
				raise = func(ctx context.Context, o lab.Options) (*lab.Lab, error) { return raiseUnder(ctx, env, u, o) }
			}
			l, err := raise(tellingWaits(cmd), o)
			if err != nil {
				return notRaised(o.Name, err)
			}
			if asJSON {
				return display.PrintJSON(env.Stdout, l)
			}
			return display.PrintLab(env.Stdout, l)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", lab.DefaultName, "name of the lab")
	f.StringVar(&wire, "wire", "", lab.WireHelp)
	f.StringVar(&cores, "cores", "", lab.CoresHelp)
	f.Var(hostsFlag(&o.Hosts), "hosts", lab.HostsHelp)
	f.Var(servicesFlag(&o.Services), "services", "add kube-proxy's rules for this many Services to the machines' packet filter,\nwith connection tracking")
	u.flags(f)
	f.BoolVar(&asJSON, "json", false, "print the lab as JSON")
	return cmd
}

// notRaised makes errors for a user of why a lab did not come up, and of what
// failed when that which was built of it was taken down again.
func notRaised(name string, err error) error {
	failed := splitJoined(err)
	do := "what was built has been removed; fix the cause, and run the command again"
	if len(failed) > 1 {
		do = removeRest + "; the reason says what to change"
	}
	failed[0] = verr.Wrap(verr.Failed, "cannot raise lab "+name, failed[0], do)
	for i, err := range failed[1:] {
		failed[1+i] = verr.Wrap(verr.Failed, "cannot remove the whole lab", err, removeRest)
	}
	return errors.Join(failed...)
}

func labList(out io.Writer) *cobra.Command {
	var asJSON, stats bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the labs on this machine",
		Long: `List the labs on this machine. A lab is

  kept      raised by "venturi lab up"; it stays until you take it down
  running   in use by a process, which takes it down itself
  dead      left behind by a killed process; the next command removes it

With --fastpath-stats it shows instead what the labs' fast paths have carried since they
were raised, what took the slow path, and why; docs/fast-path.md explains each reason.`,
		Example: `  venturi lab ls
  venturi lab ls --fastpath-stats
  venturi lab ls --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// What cannot be removed is listed as dead.
			ctx := tellingWaits(cmd)
			if swept, err := lab.Sweep(ctx); err == nil {
				for _, gone := range swept {
					sanitize.Fprintf(cmd.ErrOrStderr(), "removed %s, which a killed run had left\n", gone)
				}
			}
			list, err := lab.List(ctx)
			if err != nil {
				return err
			}
			if !stats && asJSON {
				return display.PrintJSON(out, append([]lab.Info{}, list...))
			}
			if !stats {
				return display.PrintLabs(out, list)
			}
			laid, err := display.ReadFastPaths(list)
			if err != nil {
				return err
			}
			if asJSON {
				return display.PrintJSON(out, laid)
			}
			return display.PrintFastPaths(out, laid)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	fastPathStatsFlag(cmd.Flags(), &stats)
	return cmd
}

func labExec(env *Env) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "exec MACHINE[/PATH] [--] COMMAND [ARGUMENT...]",
		Short: "Run a command on a machine of a lab, or in a pod",
		Long: `Run a command in the network namespace of a machine, or of a pod or switch on it:

  m1           the machine
  m1/PATH      the path's pod on it
  m1/PATH.p2   its second pod, where the path has several tunnels or tags
  m1/PATH.ovs  its switch, where the path has one

Only the network is the machine's; files, including /sys, are those of this host. The
exit code is that of the command.

The daemons of a path keep sockets, databases and logs in ` + lab.Folder + `/LAB/m1/PATH.
The socket of a switch's bridge is there, too: it gives access to the flows from anywhere.`,
		Example: `  venturi lab exec m1 ip -brief address
  venturi lab exec m1/vxlan -- ip route
  venturi lab exec m1/ovs-vxlan.ovs -- ovs-ofctl dump-flows unix:` + lab.Folder + `/lab/m1/ovs-vxlan/br-int.mgmt
  venturi lab exec m2 -- tcpdump -ni wire0
  venturi lab exec --name busy m1 nft list ruleset`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			where, command := args[0], args[1:]
			if command[0] == "--" {
				command = command[1:]
			}
			if len(command) == 0 {
				return verr.New(verr.Usage, "cannot run a command in "+where, "no command is given",
					"see `venturi lab exec --help`")
			}
			if l, err := lab.Load(name); err == nil && l.Guest != nil {
				return execUnder(cmd.Context(), env, l, where, command)
			}
			return lab.Exec(name, where, command)
		},
	}
	cmd.Flags().SetInterspersed(false) // the command's options are its own
	cmd.Flags().StringVar(&name, "name", lab.DefaultName, "name of the lab")
	return cmd
}

func labDown(out io.Writer) *cobra.Command {
	var (
		name string
		all  bool
	)
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Take a lab down, and remove what killed runs left behind",
		Long: `Take a lab down: end the processes in it, and delete its namespaces and its folder.
Labs whose process was killed are removed too, whatever their names. A lab in use is
left to the process that uses it.`,
		Example: `  venturi lab down              the lab called ` + lab.DefaultName + `, and what killed runs left behind
  venturi lab down --name busy  another lab
  venturi lab down --all        all kept labs`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := tellingWaits(cmd)
			swept, stuck := lab.Sweep(ctx)
			for _, gone := range swept {
				sanitize.Fprintf(out, "removed %s, which a killed run had left\n", gone)
			}
			if verr.Code(stuck) == verr.Permission || ctx.Err() != nil {
				return stuck
			}
			// A dead lab that cannot be removed is no reason to leave the others.
			targets, err := downTargets(ctx, name, all, cmd.Flags().Changed("name"), stuck != nil)
			failed := []error{err}
			for _, target := range targets {
				if slices.Contains(swept, target) {
					continue
				}
				if err := lab.Remove(ctx, target); err != nil {
					failed = append(failed, err)
					continue
				}
				sanitize.Fprintf(out, "took %s down\n", target)
			}
			for _, err := range splitJoined(stuck) {
				failed = append(failed, verr.Wrap(verr.Failed, "cannot remove what a killed run left", err,
					"see to what the reason names, and run the command again"))
			}
			err = errors.Join(failed...)
			if err == nil && len(swept)+len(targets) == 0 {
				sanitize.Fprintf(out, "nothing to take down\n")
			}
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", lab.DefaultName, "name of the lab")
	cmd.Flags().BoolVar(&all, "all", false, "take down all kept labs")
	cmd.MarkFlagsMutuallyExclusive("name", "all")
	return cmd
}

// downTargets says which labs to take down: one that was named, even if it is
// not there, else those that are. After a sweep that failed, dead ones are left
// out: the sweep has tried them, and its error tells of them.
func downTargets(ctx context.Context, name string, all, named, sweepFailed bool) ([]string, error) {
	if named && !sweepFailed {
		return []string{name}, nil
	}
	list, err := lab.List(ctx)
	if err != nil {
		return nil, err
	}
	var targets []string
	found := false
	for _, i := range list {
		found = found || i.Name == name
		wanted := all && i.Status == lab.StatusKept || !all && i.Name == name
		if wanted && (!sweepFailed || i.Status != lab.StatusDead) {
			targets = append(targets, i.Name)
		}
	}
	if named && !found {
		targets = append(targets, name)
	}
	return targets, nil
}

// tellingWaits is a command's context, in which it says for whom it waits.
func tellingWaits(cmd *cobra.Command) context.Context {
	return lab.WithSay(cmd.Context(), func(format string, args ...any) {
		sanitize.Fprintf(cmd.ErrOrStderr(), "venturi: "+format+"\n", args...)
	})
}
