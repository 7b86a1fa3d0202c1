package cli

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/verr"
)

// newFastpath holds what concerns the fast path of a node. With --config it is the daemon of
// a lab's machine.
func newFastpath(env *Env) *cobra.Command {
	o := fastpath.Options{Stdin: env.Stdin}
	cmd := daemon{
		name:   "fastpath",
		kind:   "fast path",
		action: "Carry established flows of one machine's pods past the slow path",
		holds:  "what to carry, and where",
	}.command(func(ctx context.Context, config string) error {
		o.Config = config
		return fastpath.Main(ctx, o)
	})
	cmd.Flags().BoolVar(&o.Replace, "replace", false, "take over from the daemon that lives there: it ends, and leaves in place what is attached")
	for _, flag := range []string{"config", "replace"} {
		_ = cmd.Flags().MarkHidden(flag) // a lab gives them
	}
	runDaemon := cmd.RunE
	cmd.Use, cmd.Hidden, cmd.Args = "fastpath", false, noSuchCommand
	cmd.Short = "See what a fast path would carry on this node"
	cmd.Long = `The fast path carries the packets of established flows between pods straight from a pod's
device to the wire and back, past the bridge, the rules and the tunnel device, and leaves
the network below as it is.

On nodes of a cluster there is "plan" so far: it reads what a CNI plugin has wired, and says
what would be carried and what not, and why. The fast path itself runs in labs.`
	cmd.Example = `  venturi fastpath plan
  venturi compare vxlan vxlan+fast       the fast path in a lab`
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("config") {
			return cmd.Help()
		}
		return runDaemon(cmd, args)
	}
	cmd.AddCommand(newFastpathPlan(env))
	return cmd
}

func newFastpathPlan(env *Env) *cobra.Command {
	var (
		netns  string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say what a fast path would carry on this node, and why not the rest; change nothing",
		Long: `Read this node's network as its CNI plugin has wired it, and say what a fast path would
carry: from which pods, to which peers. Whatever would stay slow is named, with what is in
the way: a rule, a device, a queueing discipline. Nothing is changed and nothing is loaded.

It knows pods on veth or netkit pairs, as ports of a bridge or behind a route to their
address, and peers behind one vxlan device or by next hops on one wire: Flannel (vxlan,
host-gw), Calico without encapsulation, and the plugins bridge and ptp. All of it is read
from the kernel: devices, routes, neighbours, forwarding entries, rules, programs.

What is not understood is left alone, and named: networks of BPF programs such as Cilium,
Open vSwitch, other encapsulations, bonds and VLANs below a tunnel, iptables-legacy, limits
on pods' devices, Ethernet overlays.

  carried  established TCP and UDP flows over IPv4 are carried
  waiting  they will be, as soon as the node has heard of this pod or peer
  slow     they stay on the node's own path

The exit code is 0 if everything that is named is carried or waits, 8 if something stays
slow, and 4 if nothing can be carried.`,
		Example: `  venturi fastpath plan
  venturi fastpath plan --netns node1
  venturi fastpath plan --json | jq -r '.pods[] | select(.outlook == "slow") | .device + " " + .why'`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			plan, err := readPlan(netns)
			if err != nil {
				return err
			}
			if asJSON {
				err = display.PrintJSON(env.Stdout, plan)
			} else {
				err = display.PrintFastPathPlan(env.Stdout, plan)
			}
			switch {
			case err != nil:
				return err
			case !plan.CarriesAny():
				return exitCode(verr.Missing)
			case !plan.CarriesAll():
				return exitCode(verr.Findings)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.VarP(onceFlag{&netns}, "netns", "n", netnsHelp)
	f.BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

// readPlan finds what a fast path would carry in a network namespace.
func readPlan(netns string) (plan *discover.Plan, err error) {
	const what = "cannot plan a fast path"
	if os.Geteuid() != 0 {
		return nil, verr.New(verr.Permission, what, "only root can read rules, programs and the other ends of pods' devices", "run it as root, or through sudo")
	}
	file, err := netnsFile(netns)
	if err != nil {
		return nil, err
	}
	if err := feature.Require(what, feature.Programs); err != nil {
		return nil, err
	}
	err = host.Do(file, func() error {
		plan, err = discover.Find()
		return err
	})
	if err != nil && !errors.As(err, new(*verr.Error)) {
		err = verr.Wrap(verr.Failed, what, err, "run it again; if the reason stays, report it with what \"venturi version\" prints")
	}
	return plan, err
}
