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
	var inCluster bool
	cmd := newCompareOf(env, &inCluster)
	cmd.Flags().BoolVar(&inCluster, "kube", false, "measure in a Kubernetes cluster instead of a lab: see \"venturi kube compare --help\"")
	return cmd
}

// newCompareOf is the command for a lab and for machines, or where inCluster says so, for
// a cluster.
func newCompareOf(env *Env, inCluster *bool) *cobra.Command {
	var (
		q    = compare.Request{}
		opt  = view.Options{Format: report.Formats()[0]}
		json bool

		beside, cores string
		curve         []string
		u             kernelFlag
		far           machinesFlag
		k             kubeFlags
	)
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

It needs root, except with --machines and --kube. In a lab, it changes only its own
network namespaces, and removes those that a killed run left behind.`,
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
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Paths, q.Command = args, ownCommand(env)
			q.StopWhenDecided = !cmd.Flags().Changed("until-decided") && display.IsTerminal(env.Stdout)
			var err error
			if q.Background, err = compare.ParseBeside(beside, cores); err != nil {
				return err
			}
			if q.Curve, err = compare.ParseCurve(curve); err != nil {
				return err
			}
			if q.Remote, err = far.remote(); err != nil {
				return err
			}
			if *inCluster {
				q.Cluster = k.cluster(env)
				sayRights(env, q.Cluster)
			} else if err := refuseServer(q.LoadTools, k.o.To); err != nil {
				return err
			} else if err := k.refuseAlone(); err != nil {
				return err
			}
			if json {
				opt.Format = "json"
			}
			if err := checkReport(opt); err != nil {
				return err
			}
			if cmd.Flags().Changed("margin") && q.Margin == 0 {
				return verr.New(verr.Usage, "cannot compare with --margin 0",
					"no two measurements agree exactly", "give the smallest difference that matters, such as 1%")
			}
			elsewhere, err := u.runsInGuest(env)
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
				return measureUnder(cmd.Context(), env, u, []*compare.Resolved{r}, r.Out, named)
			}
			return runCompare(cmd.Context(), env, r, func(file string, rec *result.Record) error {
				return printReport(env, file, rec, opt)
			})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&q.Loads, "load", nil, "loads to measure (default "+strings.Join(load.Default, ",")+")")
	f.StringVar(&q.Sizes, "sizes", "", "message sizes: 64, or 1,1K,64K, or 8:256K:*2 (inclusive; K=1024, k=1000)\n(default: each load's own)")
	f.IntSliceVar(&q.Flows, "flows", []int{1}, "connections at a time; 1,8 measures both")
	f.Var(number{&q.Threads, 1, compare.MaxFlows}, "threads", "distribute the --flows over this many threads at each endpoint, in turn: 640 flows on 5 threads\ncorrespond to 5 iperf3 processes with 128 streams each (default: the load's own choice)")
	f.IntVar(&q.Batch, "batch", 0, "datagrams per system call, for udp_bw; 0: one")
	f.Func("response", "`size` of responses, such as 16K, if it differs from that of requests\n(tcp_lat, udp_lat, tcp_rr, udp_rr, tcp_crr)", func(text string) (err error) {
		q.Response, err = compare.ParseResponse(text)
		return err
	})
	f.Func("rate", "offer this `RATE` per second: bits of tcp_bw (20G), datagrams of udp_bw (100k), requests of\nprobe and ping (default 1000)", rateFlag(&q.Rate))
	f.StringVar(&beside, "beside", "", "measure latency while this stream runs on the same path: LOAD, LOAD@RATE, or a share of each\npath's maximum, such as udp_bw@100k or udp_bw@50%")
	f.StringSliceVar(&curve, "curve", nil, "measure latency at these `percentages` of the background stream's maximum, such as\n0,25,50,75,90 (without --load and --beside: probe beside udp_bw)")
	f.StringVar(&cores, "probe-core", "", "cores of the background stream: same as the load's (default), or other")
	f.DurationVar(&q.Budget, "budget", 0, "time to measure; rounds and series are chosen to fit it; 0: their defaults")
	f.Var((*share)(&q.Precision), "precision", "stop early once every interval is within this, e.g. 2%")
	f.BoolVar(&q.UntilDecided, "until-decided", false, fmt.Sprintf("stop when every comparison has its verdict, or when --budget is used up (without --budget: %s);\non by default in a terminal, unless --series, --rounds, --precision or --with is given", experiment.DefaultBudget))
	f.Var((*share)(&q.Margin), "margin", "differences within this are \"same\" (default 3%)")
	f.Var(number{&q.Series, 1, compare.MaxSeries}, "series", fmt.Sprintf("sets of fresh connections (default %d)", experiment.DefaultSeries))
	f.Var(number{&q.Rounds, 1, compare.MaxRounds}, "rounds", fmt.Sprintf("slices of each path in a series (default %d)", experiment.DefaultRounds))
	f.DurationVar(&q.Slice, "slice", 0, "length of a slice (default 25ms for ping-pongs, 50ms for streams, 100ms or more for probe\nand ping)")
	f.StringVar(&q.Baseline, "baseline", "", "compare with this `PATH`, one of those named or another (default: the host network, or the first\npath if all are attach or host)")
	f.StringVar(&q.Wire, "wire", "", lab.WireHelp)
	f.StringVar(&q.Cores, "cores", "", lab.CoresHelp)
	f.Var(hostsFlag(&q.Hosts), "hosts", lab.HostsHelp)
	f.Var(servicesFlag(&q.Services), "services", "give the machines kube-proxy's rules for this many Services")
	f.StringSliceVar(&q.BesideTools, "with", nil, "run a real tool in turn with Venturi's loads on the host network, and print how far they\nagree: "+strings.Join(tool.Names(), ", "))
	f.StringSliceVar(&q.LoadTools, "tool", nil, "also run the loads with a real tool, on every path: "+strings.Join(tool.Names(), ", "))
	f.DurationVar(&q.ToolTime, "tool-time", 0, "length of each run of a real tool, in whole seconds (default 2s)")
	u.flags(f)
	far.flags(f)
	k.runFlags(f)
	k.set.VisitAll(func(f *pflag.Flag) { f.Hidden = !*inCluster })
	runFlags(f, &q)
	f.StringVar(&opt.Style, "style", "", "print as another tool does: "+strings.Join(report.Styles(), ", "))
	verboseFlag(f, &opt)
	fastPathStatsFlag(f, &opt.FastPathStats)
	f.BoolVar(&json, "json", false, "print the report as JSON")
	return cmd
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
