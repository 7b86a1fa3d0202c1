package cli

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/fastpath/shadow"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/watch"
)

// enableCommand is "fastpath enable". Its Choice is what the flags ask for and, after inherit, what is carried.
type enableCommand struct {
	env *Env
	node.Choice
	trial, limit  time.Duration
	flows         int
	listen        string
	replace, stay bool
}

func (e *enableCommand) command() *cobra.Command {
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
		RunE: e.run,
	}
	f := cmd.Flags()
	f.DurationVar(&e.trial, "trial", 0, "end it after this time, such as 120s (default: it does not end by itself)")
	f.BoolVar(&e.NAT, "nat", true, "carry translated connections, such as those to Services")
	f.BoolVar(&e.IPv6, "ipv6", false, "carry IPv6 as well; \"fastpath plan --ipv6\" shows what would be carried")
	f.IntVar(&e.flows, "shadow", 16, "first compare packets of this many flows with the network's own; 0: none")
	f.DurationVar(&e.limit, "shadow-time", 10*time.Second, "compare them for this long at most, such as 5m; 0: until that many flows have been seen")
	f.BoolVar(&e.stay, "stay-off", false, "if a packet differs, if too many are lost, or after \"fastpath disable\", wait for SIGTERM instead of exiting")
	f.BoolVar(&e.replace, "replace", false, "take over from the process that runs here, if there is one")
	keepCountersFlag(f, &e.KeepCounters)
	f.StringVar(&e.listen, "listen", "", "serve metrics at this address, such as 127.0.0.1:9138, or :9138 for all (default: not served)")
	cmd.MarkFlagsMutuallyExclusive("trial", "replace")
	return cmd
}

const cannotEnable = "cannot enable the fast path"

func (e *enableCommand) run(cmd *cobra.Command, _ []string) error {
	if err := e.check(cmd.Flags()); err != nil {
		return err
	}
	var metrics *listener
	if e.listen != "" {
		at, err := newMetricsListener(e.listen)
		if err != nil {
			return err
		}
		metrics = &at
	}
	if err := needRoot(cannotEnable, onlyRootChanges); err != nil { // otherwise a user only hears that a file cannot be read
		return err
	}
	if e.replace {
		if err := e.inherit(cmd.Flags()); err != nil {
			return err
		}
	}
	configs, err := e.plan(cannotEnable)
	if err != nil {
		return err
	}
	ctx, stopServing, err := serveNode(cmd.Context(), e.env, metrics, e.replace)
	if err != nil {
		return err
	}
	stats, err := e.carry(ctx, configs)
	if errors.Is(err, node.ErrReplaced) {
		_, printed := sanitize.Fprintf(e.env.Stdout, "another process has taken over the fast path, which carries on\n")
		return errors.Join(printed, stopServing())
	}
	if e.stay {
		err = stayOff(ctx, e.env, err, stats.Disabled && ctx.Err() == nil && e.trial == 0)
	}
	if err := errors.Join(err, stopServing()); err != nil {
		return err
	}
	return display.PrintFastPathEnd(e.env.Stdout, stats)
}

// inherit takes what was not given from the running process, if there is one.
func (e *enableCommand) inherit(given *pflag.FlagSet) error {
	running, err := node.RunningChoice()
	if err != nil {
		return verr.Wrap(verr.Failed, "cannot take over the fast path", err, "end it with: venturi fastpath disable")
	}
	if running == nil {
		return nil
	}
	if !given.Changed("ipv6") {
		e.IPv6 = running.IPv6
	}
	if !given.Changed("nat") {
		e.NAT = running.NAT
	}
	if e.KeepCounters == nil {
		e.KeepCounters = running.KeepCounters
	}
	return nil
}

// check refuses a trial, a number of flows or a time for comparing them that makes no sense.
func (e *enableCommand) check(given *pflag.FlagSet) error {
	unlimited := e.limit == 0
	switch err := checkTrial(given, e.trial); {
	case err != nil:
		return err
	case e.flows < 0:
		return verr.New(verr.Usage, "cannot compare packets of "+strconv.Itoa(e.flows)+" flows", "--shadow is less than 0", "give a number of flows, or 0 to compare none")
	case !unlimited && e.limit < time.Second:
		return verr.New(verr.Usage, "cannot compare packets for "+e.limit.String(), "--shadow-time is shorter than a second", "give a time such as 30s, or 0 for as long as it takes")
	case unlimited && e.trial > 0 && e.flows > 0:
		return verr.New(verr.Usage, "cannot compare packets without a time limit before a trial", "the end of a trial is fixed when it begins", "give --shadow-time, such as 10m, or --shadow 0 to compare none")
	}
	return nil
}

// plan plans a fast path for this node. If nothing can be carried, it prints why, and the error says so.
// With IPv6, one version of IP is enough.
func (e *enableCommand) plan(what string) (c node.Configs, err error) {
	four, err := readPlan(what, "", audit.IPv4, e.KeepCounters)
	if err != nil {
		return c, err
	}
	if !e.IPv6 {
		if !four.CarriesAny() {
			return c, refusePlans(e.env.Stdout, what, four)
		}
		return node.Configs{IPv4: e.config(four, "IPv4", "")}, nil
	}
	six, err := readPlan(what, "", audit.IPv6, e.KeepCounters)
	if err != nil {
		if !four.CarriesAny() {
			return c, err
		}
		sanitize.Fprintf(e.env.Stderr, "venturi: IPv4 is carried alone, because no IPv6 can be carried: %v\n", err)
		return node.Configs{IPv4: e.config(four, "IPv4", "")}, nil
	}
	if !four.CarriesAny() && !six.CarriesAny() {
		return c, refusePlans(e.env.Stdout, what, four, six)
	}
	return node.Configs{IPv4: e.config(four, "IPv4", "venturi fastpath plan"), IPv6: e.config(six, "IPv6", "venturi fastpath plan --ipv6")}, nil
}

// config is that of a plan; nil: nothing can be carried, which is said.
func (e *enableCommand) config(p *discover.Plan, family, command string) *fastpath.Config {
	if !p.CarriesAny() {
		sanitize.Fprintf(e.env.Stderr, "venturi: no %s can be carried now, and this is checked again every minute; \"%s\" says why\n", family, command)
		return nil
	}
	c := p.Config()
	c.NoNAT = !e.NAT
	return &c
}

// carry enables the fast path. Whenever the node is wired in another way, it begins anew with a new
// plan: meanwhile packets take the node's own path.
func (e *enableCommand) carry(ctx context.Context, c node.Configs) (stats node.FamilyStats, err error) {
	o := node.Options{
		Open:   func() (*journal.Journal, error) { return openToChange(e.env, journalWait) },
		Reopen: func() (*journal.Journal, error) { return reopenJournal(e.env) },
		Trial:  e.trial, Hold: holder(e.env),
		Report:     func(s fastpath.State) { display.PrintFastPathState(e.env.Stderr, s) },
		ReportIPv6: func(s fastpath.State) { display.PrintFastPathState6(e.env.Stderr, s) },
		Shadow: node.ShadowOptions{Flows: e.flows, Limit: e.limit, Compared: func(family string, found shadow.Result) {
			display.PrintCompared(e.env.Stderr, family, found)
		}},
		Replace: e.replace, Choice: &e.Choice,
	}
	if e.trial > 0 {
		return node.Enable(ctx, c, o)
	}
	for {
		wired, stop := e.untilRewired(ctx, c)
		stats, err = node.Enable(wired, c, o)
		rewired := errors.Is(context.Cause(wired), node.ErrRewired) && !stats.Disabled
		stop()
		if err != nil || !rewired {
			return stats, err
		}
		sanitize.Fprintf(e.env.Stderr, "venturi: the wiring of this node's network has changed: planning again\n")
		if c, err = e.plan(cannotEnable + " again"); err != nil {
			return stats, err
		}
		o.Replace = false
	}
}

// untilRewired gives a context that ends when other devices should be followed for a version of IP, or
// when one can be carried of which nothing could be.
func (e *enableCommand) untilRewired(ctx context.Context, c node.Configs) (context.Context, context.CancelFunc) {
	wired, stop := e.untilFamilyRewired(ctx, audit.IPv4, c.IPv4)
	if !e.IPv6 {
		return wired, stop
	}
	wired, stop6 := e.untilFamilyRewired(wired, audit.IPv6, c.IPv6)
	return wired, func() { stop6(); stop() }
}

func (e *enableCommand) untilFamilyRewired(ctx context.Context, family audit.Family, c *fastpath.Config) (context.Context, context.CancelFunc) {
	if c == nil {
		return node.UntilRewired(ctx, fastpath.Config{}, func() (fastpath.Config, error) { return e.choosePlanned(family) })
	}
	return node.UntilRewired(ctx, *c, func() (fastpath.Config, error) { return chooseConfig(family) })
}

// chooseConfig is what a fast path of this node should follow now.
func chooseConfig(family audit.Family) (c fastpath.Config, err error) {
	p, err := discover.Choose(family)
	if err != nil {
		return c, err
	}
	return p.Config(), nil
}

// choosePlanned is the same if something can be carried.
func (e *enableCommand) choosePlanned(family audit.Family) (c fastpath.Config, err error) {
	p, err := readPlan("cannot plan a fast path", "", family, e.KeepCounters)
	if err != nil || !p.CarriesAny() {
		return c, err
	}
	return p.Config(), nil
}
