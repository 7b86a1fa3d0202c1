package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/fastpath/shadow"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/watch"
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
	cmd.Flags().BoolVar(&o.Replace, "replace", false, "take over from the running daemon: it ends and leaves its programs attached")
	for _, flag := range []string{"config", "replace"} {
		_ = cmd.Flags().MarkHidden(flag) // a lab gives them
	}
	runDaemon := cmd.RunE
	cmd.Use, cmd.Hidden, cmd.Args = "fastpath", false, noSuchCommand
	cmd.Short = "Speed up this node's pods: carry established flows by eBPF programs"
	cmd.Long = `Carry the packets of established TCP and UDP flows by eBPF programs, straight from a pod's
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
namespace that it runs in, or in that of --netns.`
	cmd.Example = `  venturi fastpath plan
  venturi fastpath shadow --time 30s
  venturi fastpath enable --trial 120s
  venturi fastpath status
  venturi fastpath stats
  venturi fastpath disable`
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("config") {
			return cmd.Help()
		}
		return runDaemon(cmd, args)
	}
	cmd.AddCommand(newFastpathPlan(env))
	for _, sub := range []*cobra.Command{(&shadowCommand{env: env}).command(), newFastpathEnable(env), newFastpathStatus(env), fastpathStats(env.Stdout), newFastpathDisable(env)} {
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

func newFastpathEnable(env *Env) *cobra.Command {
	var (
		trial  time.Duration
		listen string
		nat    bool
		flows  int
		limit  time.Duration
		again  bool
		stay   bool
		ipv6   bool
		keep   []string
	)
	cmd := &cobra.Command{
		Use:   "enable",
		Short: "Carry this node's established flows, until Ctrl-C or \"fastpath disable\"",
		Long: `Carry the flows that "venturi fastpath plan" lists, and follow every change of pods, peers,
routes and rules, until Ctrl-C, SIGTERM or "venturi fastpath disable". Then it removes
everything that it added. Nothing else on the node is changed. It prints what it carries, and
each change of that; "venturi fastpath status" shows the counters.

To try it, give --trial: it then ends by itself, and leaves nothing even if its process is
killed.

If nothing can be carried, nothing is changed, the plan is printed, and the exit code is 4.

Before it carries anything, it compares packets of --shadow flows with those that the network
sends, for --shadow-time at most, and says how many it compared. If a packet differs, or too
many are lost (see "venturi fastpath shadow"), nothing is carried, the reason is printed, and
the exit code is 8. With --stay-off, it then waits for SIGTERM instead of exiting, and likewise
after "fastpath disable", so that a DaemonSet, for example, does not start it again.

It is recorded in the journal before it begins. If its process is killed, flows continue on
the slow path at once, and "venturi fastpath disable" or "venturi undo" removes what is left.

Once a minute it checks whether the node is wired differently, for example because the tunnel
was created after the start. If so, it stops carrying, plans again and begins anew.

Translated connections are carried as well: those to the virtual address of a Service, and
masqueraded ones. Those that are masqueraded behind the wire's own address, or come to it by a
NodePort, are carried only over UDP, and only where pods are routed without a tunnel. With
--nat=false, all translated connections stay on the slow path.

With --ipv6 it also carries what "venturi fastpath plan --ipv6" lists: packets to other pods of
the node, unless they go to a Service, and to other nodes by one wire without encapsulation or
in VXLAN over IPv6. If only one version of IP can be carried, it carries that one, and the
other as soon as it can be. A rule or a route that keeps one of them slow does not affect the
other. IPv4 and IPv6 are compared one after the other, each for --shadow-time at most.

With --replace it takes over from the process that runs here, of this version or another, as
for an upgrade: that process ends and leaves everything in place, no packet is lost, and the
counters continue, unless that version lays them out differently. Packets are not compared
again, unless that process had only compared them. --nat, --ipv6 and --keep-counters stay as
they were in that process unless you give them; those of a "shadow" are not kept. A trial cannot
be taken over. Give --listen again: metrics are served once the other process has freed the
address.

Some counters miss carried packets; "venturi fastpath plan" lists them. With --keep-counters,
nothing is carried while a counter of these kinds would miss packets:

  conntrack  packets and bytes of connections, while net.netfilter.nf_conntrack_acct is 1
  rules      nftables rules with a counter, iptables rules that only count, and rules that
             log, if packets of established flows may reach them
  iptables   any iptables rule that these packets may reach. All have counters, kube-proxy's
             included, so this keeps everything slow on most nodes

Without kinds, --keep-counters means conntrack,rules. Write kinds after "=", separated by
commas; "none" keeps nothing. Device statistics cannot be kept.

With --listen it serves OpenMetrics at ` + watch.MetricsPath + `: pods, peers and flows, packets and bytes by
outcome, epochs by cause (see "venturi fastpath status"), and what stays on the slow path, with
the reasons. The label "family" is IPv4 or IPv6.`,
		Example: `  venturi fastpath enable --trial 120s
  venturi fastpath enable --listen 127.0.0.1:9138
  venturi fastpath enable --replace
  venturi fastpath enable --keep-counters=conntrack
  venturi fastpath enable --netns node1`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkEnableFlags(cmd.Flags(), trial, flows, limit); err != nil {
				return err
			}
			const what = "cannot enable the fast path"
			if err := needRoot(what, onlyRootChanges); err != nil { // otherwise a user only hears that a file cannot be read
				return err
			}
			var metrics *listener
			if listen != "" {
				at, err := newMetricsListener(listen)
				if err != nil {
					return err
				}
				metrics = &at
			}
			wanted := fastPathWish{NAT: nat, IPv6: ipv6, KeepCounters: keep}
			if again {
				if err := wanted.inherit(cmd.Flags()); err != nil {
					return err
				}
			}
			configs, err := wanted.plan(env, what)
			if err != nil {
				return err
			}
			ctx, stopServing, err := serveNode(cmd.Context(), env, metrics, again)
			if err != nil {
				return err
			}
			stats, err := enableNode(ctx, env, configs, wanted, node.Options{
				Open:   func() (*journal.Journal, error) { return openToChange(env, journalWait) },
				Reopen: func() (*journal.Journal, error) { return reopenJournal(env) },
				Trial:  trial, Hold: holder(env),
				Report:     func(s fastpath.State) { display.PrintFastPathState(env.Stderr, s) },
				ReportIPv6: func(s fastpath.State) { display.PrintFastPathState6(env.Stderr, s) },
				Shadow: node.ShadowOptions{Flows: flows, Limit: limit, Compared: func(family string, found shadow.Result) {
					display.PrintCompared(env.Stderr, family, found)
				}},
				Replace: again, Wish: (*node.Wish)(&wanted),
			})
			if errors.Is(err, node.ErrReplaced) {
				_, printed := sanitize.Fprintf(env.Stdout, "another process has taken over the fast path, which carries on\n")
				return errors.Join(printed, stopServing())
			}
			if stay {
				err = stayOff(ctx, env, err, stats.Disabled && ctx.Err() == nil && trial == 0)
			}
			if err := errors.Join(err, stopServing()); err != nil {
				return err
			}
			return display.PrintFastPathEnd(env.Stdout, stats)
		},
	}
	cmd.Flags().DurationVar(&trial, "trial", 0, "end it after this time, such as 120s (default: it does not end by itself)")
	cmd.Flags().BoolVar(&nat, "nat", true, "carry translated connections, such as those to Services")
	cmd.Flags().BoolVar(&ipv6, "ipv6", false, "carry IPv6 as well; \"fastpath plan --ipv6\" shows what would be carried")
	cmd.Flags().IntVar(&flows, "shadow", 16, "first compare packets of this many flows with the network's own; 0: none")
	cmd.Flags().DurationVar(&limit, "shadow-time", 10*time.Second, "compare them for this long at most, such as 5m; 0: until that many flows have been seen")
	cmd.Flags().BoolVar(&stay, "stay-off", false, "if a packet differs, if too many are lost, or after \"fastpath disable\", wait for SIGTERM instead of exiting")
	cmd.Flags().BoolVar(&again, "replace", false, "take over from the process that runs here, if there is one")
	keepCountersFlag(cmd.Flags(), &keep)
	cmd.MarkFlagsMutuallyExclusive("trial", "replace")
	cmd.Flags().StringVar(&listen, "listen", "", "serve metrics at this address, such as 127.0.0.1:9138, or :9138 for all (default: not served)")
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
