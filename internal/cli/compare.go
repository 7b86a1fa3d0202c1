package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/report"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/tool"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

func newCompare(env *Env) *cobra.Command {
	var c compareFlags
	cmd := c.command(env)
	cmd.Flags().BoolVar(&c.inCluster, "kube", false, "measure in a Kubernetes cluster instead of a lab: see \"venturi kube compare --help\"")
	return cmd
}

// compareFlags are those of compare, for a lab, for machines, and for a cluster.
type compareFlags struct {
	inCluster bool
	q         compare.Request
	opt       view.Options
	asJSON    bool

	background, probeCore string
	curve                 []string
	kernel                kernelFlag
	machines              machinesFlag
	kube                  kubeFlags
	lab                   *pflag.FlagSet // the flags that mean nothing in a cluster
}

func (c *compareFlags) command(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare [PATH...]",
		Short: "Measure data paths against the host network, interleaved",
		Long: `Compare data paths with the host network. Venturi raises two machines (--hosts for
more) with a wire between them, builds every PATH on them, and measures the paths
between the first two in turn: in random order, 25 to 100 ms each, over connections
that stay open. The result is the ratio of each path to the host network in the same
rounds, with a 95 % interval and a verdict:

  same          the whole interval is within the margin around 1
  faster/slower the interval excludes 1
  cannot tell   neither; with the smallest difference that would have shown

The host network is always measured, unless --baseline names another path, or several
paths are given and all of them exist already (attach). A second copy of it is measured
as if it were another path: the range of its ratio around 1 is the noise floor, and no
smaller difference is claimed. If the copy itself differs, the result is TOO NOISY, and
there are no verdicts.

` + display.PathAndLoadHelp() + `

It needs root, except with --machines, --kube and --kernel. In a lab, it changes only its
own network namespaces, and removes those that a killed run left behind.`,
		Example: `  venturi compare
  venturi compare vxlan --load tcp_lat,udp_lat --budget 30s
  venturi compare --wire tso=on,tunnel-tso=off --load tcp_bw
  venturi compare vxlan --load tcp_lat,tcp_bw --sizes 8:256K:*2 --budget 5m
  venturi compare vxlan --services 1000
  venturi compare bgp ovs-vxlan:datapath=netdev,tunnels=5 --flows 1,5
  venturi compare host --with qperf --load tcp_lat
  venturi compare vxlan --tool iperf3 --load tcp_bw
  venturi compare vxlan vxlan+fast --fastpath-stats
  venturi compare --kernel 6.1 host geneve
  venturi compare --machines a=ssh://root@192.0.2.1,b=ssh://root@192.0.2.2 --dev eth1 vxlan bgp
  venturi compare --machines a=ssh://root@192.0.2.1,b=ssh://root@192.0.2.2 --take eth1 vxlan bgp`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, env, args) },
	}
	f := cmd.Flags()
	c.loadFlags(f)
	c.planFlags(f)
	c.labFlags(f)
	c.kube.runFlags(f)
	c.reportFlags(f)
	hidden := c.kube.set
	if c.inCluster {
		hidden = c.lab
	}
	hidden.VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	return cmd
}

// loadFlags say what is measured.
func (c *compareFlags) loadFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&c.q.Loads, "load", nil, "loads to measure (default "+strings.Join(load.Default, ",")+")")
	f.StringVar(&c.q.Sizes, "sizes", "", "message sizes: 64, or 1,1K,64K, or 8:256K:*2 (inclusive; K=1024, k=1000)\n(default: each load's own)")
	f.IntSliceVar(&c.q.Flows, "flows", []int{1}, "connections at a time; 1,8 measures both")
	f.Var(number{&c.q.Threads, 1, compare.MaxFlows}, "threads", "distribute the --flows over this many threads at each endpoint, in turn: 640 flows on 5 threads\ncorrespond to 5 iperf3 processes with 128 streams each (default: the load's own choice)")
	f.IntVar(&c.q.Batch, "batch", 0, "datagrams per system call, for udp_bw; 0: one")
	f.Func("response", "`size` of responses, such as 16K, if it differs from that of requests\n(tcp_lat, udp_lat, tcp_rr, udp_rr, tcp_crr)", func(text string) (err error) {
		c.q.Response, err = compare.ParseResponse(text)
		return err
	})
	f.Func("rate", "offer this `RATE` per second: bits of tcp_bw (20G), datagrams of udp_bw (100k), requests of\nprobe and ping (default 1000)", rateFlag(&c.q.Rate))
	f.StringVar(&c.background, "beside", "", "measure latency while this stream runs on the same path: LOAD, LOAD@RATE, or a share of each\npath's maximum, such as udp_bw@100k or udp_bw@50%")
	f.StringSliceVar(&c.curve, "curve", nil, "measure latency at these `percentages` of the background stream's maximum, such as\n0,25,50,75,90 (without --load and --beside: probe beside udp_bw)")
	f.StringVar(&c.probeCore, "probe-core", "", "cores of the background stream: same as the load's (default), or other")
}

// planFlags say how, and for how long.
func (c *compareFlags) planFlags(f *pflag.FlagSet) {
	f.DurationVar(&c.q.Budget, "budget", 0, "time to measure; rounds and series are chosen to fit it; 0: their defaults")
	f.Var((*share)(&c.q.Precision), "precision", "stop early once every interval is within this, e.g. 2%")
	f.BoolVar(&c.q.UntilDecided, "until-decided", false, fmt.Sprintf("stop when every comparison has its verdict, or when --budget is used up (without --budget: %s);\non by default in a terminal, unless --series, --rounds, --precision or --with is given", experiment.DefaultBudget))
	f.Var((*share)(&c.q.Margin), "margin", "differences within this are \"same\" (default 3%)")
	f.Var(number{&c.q.Series, 1, compare.MaxSeries}, "series", fmt.Sprintf("sets of fresh connections (default %d)", experiment.DefaultSeries))
	f.Var(number{&c.q.Rounds, 1, compare.MaxRounds}, "rounds", fmt.Sprintf("slices of each path in a series (default %d; fewer in a cluster, where a run takes about 70 s)", experiment.DefaultRounds))
	f.DurationVar(&c.q.Slice, "slice", 0, "length of a slice (default 25ms for ping-pongs, 50ms for streams, 100ms or more for probe\nand ping)")
	f.StringVar(&c.q.Cores, "cores", "", lab.CoresHelp)
	runFlags(f, &c.q)
}

// labFlags are those that mean nothing in a cluster.
func (c *compareFlags) labFlags(all *pflag.FlagSet) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.StringVar(&c.q.Baseline, "baseline", "", "compare with this `PATH`, one of those named or another (default: the host network, or the first\npath if all are attach or, with --machines, host)")
	f.StringVar(&c.q.Wire, "wire", "", lab.WireHelp)
	f.Var(hostsFlag(&c.q.Hosts), "hosts", lab.HostsHelp)
	f.Var(servicesFlag(&c.q.Services), "services", "give the machines kube-proxy's rules for this many Services")
	f.StringSliceVar(&c.q.BesideTools, "with", nil, "run a real tool in turn with Venturi's loads on the host network, and print how far they\nagree: "+strings.Join(tool.Names(), ", "))
	f.StringSliceVar(&c.q.LoadTools, "tool", nil, "also run the loads with a real tool, on every path: "+strings.Join(tool.Names(), ", "))
	f.DurationVar(&c.q.ToolTime, "tool-time", 0, "length of each run of a real tool, in whole seconds, 1m at most (default 2s)")
	c.kernel.flags(f)
	c.machines.flags(f)
	fastPathStatsFlag(f, &c.opt.FastPathStats)
	c.lab = f
	all.AddFlagSet(f)
}

// reportFlags say how the result is printed.
func (c *compareFlags) reportFlags(f *pflag.FlagSet) {
	f.StringVar(&c.opt.Style, "style", "", "print as another tool does: "+strings.Join(report.Styles(), ", "))
	verboseFlag(f, &c.opt)
	f.BoolVar(&c.asJSON, "json", false, "print the report as JSON")
}

// request is what the flags ask for. Errors are for people.
func (c *compareFlags) request(cmd *cobra.Command, env *Env, args []string) (q compare.Request, err error) {
	q = c.q
	q.Paths, q.Command = args, ownCommand(env)
	q.StopWhenDecided = !cmd.Flags().Changed("until-decided") && display.IsTerminal(env.Stdout)
	if q.Background, err = compare.ParseBeside(c.background, c.probeCore); err != nil {
		return q, err
	}
	if q.Curve, err = compare.ParseCurve(c.curve); err != nil {
		return q, err
	}
	if q.Remote, err = c.machines.remote(); err != nil {
		return q, err
	}
	if c.inCluster {
		q.Cluster = c.kube.cluster(env)
		sayRights(env, q.Cluster)
	} else if err := refuseServer(q.LoadTools, c.kube.o.To); err != nil {
		return q, err
	} else if err := c.kube.refuseAlone(); err != nil {
		return q, err
	}
	if err := checkReport(c.opt); err != nil {
		return q, err
	}
	if cmd.Flags().Changed("margin") && q.Margin == 0 {
		return q, verr.New(verr.Usage, "cannot compare with --margin 0",
			"no two measurements agree exactly", "give the smallest difference that matters, such as 1%")
	}
	return q, nil
}

func (c *compareFlags) run(cmd *cobra.Command, env *Env, args []string) error {
	c.opt.Format = report.Formats()[0]
	if c.asJSON {
		c.opt.Format = "json"
	}
	q, err := c.request(cmd, env, args)
	if err != nil {
		return err
	}
	elsewhere, err := c.kernel.runsInGuest(env)
	if err != nil {
		return err
	}
	named := q.Out != ""
	if elsewhere && !named {
		q.Out = compare.FreshFolder(time.Now())
	}
	r, err := q.Resolve()
	if err != nil {
		return err
	}
	if elsewhere {
		return measureUnder(cmd.Context(), env, c.kernel, []*compare.Resolved{r}, r.Out, named)
	}
	return runCompare(cmd.Context(), env, r, func(file string, rec *result.Record) error {
		return printReport(env, file, rec, c.opt)
	})
}

// refuseServer names the command for a server that somebody else runs.
func refuseServer(tools []string, server string) error {
	if server == "" || !slices.Contains(tools, "iperf3") {
		return nil
	}
	return verr.New(verr.Usage, "cannot compare paths to the iperf3 server "+server,
		"a comparison sets up both endpoints of each path itself, with their servers",
		"measure against an existing server with: venturi iperf3 "+server)
}

// runCompare carries a comparison out and prints what was measured.
func runCompare(ctx context.Context, env *Env, r *compare.Resolved, write func(file string, rec *result.Record) error) error {
	program, err := program()
	if err != nil {
		return err
	}
	show := progress.New(env.Stderr)
	rec, file, err := compare.Do(ctx, r, compare.Host{
		Version: Version(), Program: program, Watch: show, Owner: sudoCaller(env)})
	show.Done()
	if rec == nil || len(rec.Slices) == 0 {
		if err == nil {
			err = context.Cause(ctx) // stopped before there was anything to report
		}
		return err
	}
	err = cmp.Or(err, write(file, rec))
	sanitize.Fprintf(env.Stderr, "venturi: the record is %s\n", file)
	if err != nil {
		return err
	}
	return compare.EndError(ctx, rec)
}

// sudoCaller is the user who called sudo, to whom a record belongs; nil: nobody.
func sudoCaller(env *Env) *compare.Owner {
	uid, err := strconv.Atoi(env.Getenv("SUDO_UID"))
	gid, gerr := strconv.Atoi(env.Getenv("SUDO_GID"))
	if err != nil || gerr != nil {
		return nil
	}
	return &compare.Owner{UID: uid, GID: gid}
}
