package cli

import (
	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// newFastpath holds what concerns the fast path of a node. With --config it is the daemon of
// a lab's machine.
func newFastpath(env *Env) *cobra.Command {
	o := fastpath.Options{Stdin: env.Stdin}
	cmd := &cobra.Command{
		Use:   "fastpath",
		Short: "Speed up this node's pods: carry established flows by eBPF programs",
		Long: `Carry the packets of established TCP and UDP flows by eBPF programs, straight from a pod's
device to the wire, from the wire to a pod, or to another pod of this node. They skip the
bridge, the rules and, over IPv4, the tunnel device. A flow is carried only while the node's
own path, the slow path, is proven to treat all of its packets alike. Everything else stays
on the slow path.

Try it in three steps: "plan" shows what would be carried here, what not, and why, and changes
nothing. "shadow" compares the packets that would be carried with the network's own, and
carries nothing. "enable --trial 120s" carries flows for two minutes. Then "enable" carries
them and follows every change, "status" and "stats" show what it does, and "disable" removes
all of it.

It works with Flannel, Calico, and the CNI plugins bridge and ptp, but not with Cilium or
Calico's eBPF mode; see "venturi fastpath plan --help". It needs root, and Linux 5.13 or later
with BTF. Run it on the node itself, or in a pod with hostNetwork: it works in the network
namespace that it runs in, or in that of --netns.`,
		Example: `  venturi fastpath plan
  venturi fastpath shadow --time 30s
  venturi fastpath enable --trial 120s
  venturi fastpath status
  venturi fastpath stats
  venturi fastpath disable`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("config") {
				return cmd.Help()
			}
			if err := needConfig("fast path", o.Config); err != nil {
				return err
			}
			return fastpath.Main(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Config, "config", "", "file that says what to carry, and where")
	cmd.Flags().BoolVar(&o.Replace, "replace", false, "take over from the running daemon: it ends and leaves its programs attached")
	for _, flag := range []string{"config", "replace"} {
		_ = cmd.Flags().MarkHidden(flag) // a lab gives them
	}
	cmd.AddCommand(newFastpathPlan(env))
	for _, sub := range []*cobra.Command{(&shadowCommand{env: env}).command(), (&enableCommand{env: env}).command(), newFastpathStatus(env), fastpathStats(env.Stdout), newFastpathDisable(env)} {
		cmd.AddCommand(inNetns(env, sub))
	}
	return cmd
}

func newFastpathPlan(env *Env) *cobra.Command {
	var (
		netns  string
		asJSON bool
		ipv6   bool
		keep   []string
	)
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what a fast path would carry on this node, and why not the rest; change nothing",
		Long: `Show what a fast path would carry on this node: from which pods, to which peers (other nodes).
What would stay on the slow path, the node's own, is listed with the reason: a rule, a device,
a queueing discipline. Nothing is changed.

  carried  the established TCP and UDP flows of this pod or peer would be carried
  waiting  they would be, once the node has learned the address of this pod or peer
  slow     they would stay on the slow path

The exit code is 0 if everything listed is carried or waiting, 8 if something stays on the
slow path, and 4 if nothing can be carried.

These networks are supported:

  pods   on veth or netkit pairs, as ports of a bridge or behind a route to their address;
         on veth pairs, they are also carried to each other
  peers  behind one vxlan or ipip device, behind one geneve device each, or by next hops on
         one wire, without encapsulation
  wires  network cards, VLANs and bonds

Flannel (vxlan, host-gw), Calico (VXLAN, IPIP, or without encapsulation) and the CNI plugins
bridge and ptp set up such networks. What is not supported is listed, and stays slow: BPF data
planes such as Cilium's, Open vSwitch, other encapsulations, bridges and teams as the wire,
iptables-legacy, limits on pods' devices, Ethernet overlays. The plan is made from the kernel's
tables alone: devices, routes, neighbours, forwarding entries, rules and programs.

With --ipv6 it shows which IPv6 traffic would be carried, which is less: traffic to other pods
of the node, and to other nodes by one wire without encapsulation or in VXLAN over IPv6.

It also lists which statistics, counters and captures would miss carried packets. With
--keep-counters it shows what "enable --keep-counters" would carry.`,
		Example: `  venturi fastpath plan
  venturi fastpath plan --netns node1
  venturi fastpath plan --keep-counters
  venturi fastpath plan --ipv6
  venturi fastpath plan --json | jq -r '.pods[] | select(.outlook == "slow") | .device + " " + .why'`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			plan, err := readPlan("cannot plan a fast path", netns, familyOf(ipv6), keep)
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
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	f.BoolVar(&ipv6, "ipv6", false, "plan for IPv6 instead of IPv4")
	keepCountersFlag(f, &keep)
	return cmd
}

func newFastpathDisable(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "disable",
		Short: "End this node's fast path, and remove it completely",
		Long: `End the fast path of the current network namespace, or of the one that --netns names, and
remove everything that it added, even if its process was killed. Flows continue on the slow
path. If there is no fast path, nothing is done, and the exit code is 0.

Carrying stops at once. A running proof (tune --prove), which holds the journal, is then
ended, which undoes what it has changed.`,
		Example: "  venturi fastpath disable\n  venturi fastpath disable --netns node1",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needRoot("cannot disable the fast path", onlyRootChanges); err != nil {
				return err
			}
			const what, hint = "cannot disable the fast path", "see what remains with: venturi fastpath status; then try: venturi undo"
			is, err := node.RequestStop()
			if err != nil {
				return verr.Wrap(verr.Failed, what, err, hint)
			}
			j, err := takeJournal(cmd.Context(), env, func(t *journal.Txn) bool { return is && anyProof(t) }) // no proof ends for nothing
			if err != nil {
				return err
			}
			defer j.Close()
			was, err := node.Disable(j)
			if err != nil {
				return verr.Wrap(verr.Failed, what, err, hint)
			}
			text := "the fast path is disabled and fully removed"
			if !was && !is {
				text = "there is no fast path here"
			}
			_, err = sanitize.Fprintf(env.Stdout, "%s\n", text)
			return err
		},
	}
}

func newFastpathStatus(env *Env) *cobra.Command {
	asJSON, live := false, false
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what this node's fast path carries",
		Long: `Show whether there is a fast path in the current network namespace, or in the one that --netns
names, what it carries, and what became of the packets since it was enabled: how many were
carried, and why the others were not.

For each pod and peer (another node) it counts the flows in the table: all, those that are
carried in at least one direction, and those that the node translates, such as to Services. It
also lists the statistics, counters and captures that miss carried packets.

When rules, routes or the like change, a new epoch begins: all flows take the slow path until
they are learned anew. The output shows the number of epochs by cause, and when and why the
last one began.

With --watch it then prints a line each second until Ctrl-C: how many packets were carried and
how many were not, and the main reason, and below it the pods and peers whose flows have
changed. A new epoch has a line, too. If IPv6 is carried, it has lines of its own.`,
		Example: "  venturi fastpath status\n  venturi fastpath status --watch\n  venturi fastpath status --json | jq .packets",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := readFastPath()
			switch {
			case err != nil:
				return err
			case asJSON:
				return display.PrintJSON(env.Stdout, report)
			}
			if err := report.Print(env.Stdout); err != nil || !live || !report.Enabled {
				return err
			}
			return watchFastPath(cmd.Context(), env, report)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	cmd.Flags().BoolVar(&live, "watch", false, "then print a line each second until Ctrl-C")
	cmd.MarkFlagsMutuallyExclusive("json", "watch")
	return cmd
}
