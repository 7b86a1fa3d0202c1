package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/watch"
	"github.com/venturi-net/venturi/result"
)

// defaultWatchFolder is where `venturi watch` keeps its records unless told otherwise.
const defaultWatchFolder = "venturi-watch"

// leastInterval leaves a run time to raise its lab.
const leastInterval = 5 * time.Second

func newWatch(env *Env) *cobra.Command {
	var (
		q       = compare.Request{Budget: watch.DefaultBudget}
		far     machinesFlag
		k       kubeFlags
		cluster bool
		listen  = watch.DefaultListen
		folder  = defaultWatchFolder
		keep    = watch.DefaultKeep
		opt     = watch.Options{Interval: watch.DefaultInterval, FalseAlarm: watch.DefaultFalseAlarm, Log: env.Stderr}
	)
	cmd := &cobra.Command{
		Use:   "watch [PATH...]",
		Short: "Measure again and again, serve metrics, and report when a ratio has changed",
		Long: `Repeat a small comparison every --interval, until Ctrl-C or SIGTERM. Each run works like
"venturi compare", and leaves only its record.

The last run and counters of all runs are served as OpenMetrics at ` + watch.MetricsPath + ` of --listen, for
Prometheus. A Grafana dashboard and a systemd unit are in the source tree, in contrib/.

Watch reports when a ratio to the host network has changed. It needs about 10 runs to learn
what is normal, and then detects a clear change after 4 to 7 runs. While nothing changes, it
raises on average at most one false alarm in --false-alarm-runs runs, provided that the runs
are independent; a daily cycle can raise more. A change is logged and counted in
venturi_watch_changes_total. From then on, the new ratio is the normal one.

The ratios of the last 9,000 runs are stored in ` + watch.HistoryFile + ` of the folder, so that a
restarted service continues. A history of other paths, machines or another wire is moved to
` + watch.HistoryFile + `.old. The last --keep records are kept, too, for "venturi report".

It needs root, as "venturi compare" does, except with --machines and --kube. With --kube it
measures a Kubernetes cluster. In a pod, it measures the pod's own cluster, with the rights
of its service account; the Helm chart in charts/venturi does this.`,
		Example: `  venturi watch vxlan
  venturi watch vxlan geneve --load tcp_lat,tcp_bw --interval 30m
  venturi watch vxlan --listen 127.0.0.1:9137 --out /var/lib/venturi
  venturi watch --kube pod service --image IMAGE -n lab`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Paths, q.Command, q.Wait = args, ownCommand(env), true
			listenAt, err := newMetricsListener(listen)
			if err != nil {
				return err
			}
			if q.Remote, err = far.remote(); err != nil {
				return err
			}
			if cluster {
				q.Cluster = k.cluster(env)
				sayRights(env, q.Cluster)
			} else if err := k.refuseAlone(); err != nil {
				return err
			}
			if opt.Interval < leastInterval {
				return verr.New(verr.Usage, "cannot measure every "+opt.Interval.String(), "a run takes longer than that", "give an --interval of "+leastInterval.String()+" or more")
			}
			r, err := q.Resolve()
			if err != nil {
				return err
			}
			if err := r.Check(); err != nil {
				return err
			}
			program, err := program()
			if err != nil {
				return err
			}
			host := compare.Host{Version: Version(), Program: program, Watch: progress.Silent(io.Discard), Owner: sudoCaller(env)}
			if err := resume(folder, requestText(&q), &opt); err != nil {
				return err
			}
			listener, err := listenAt.listen()
			if err != nil {
				return err
			}
			measure := func(ctx context.Context) (*result.Record, error) {
				q.Out = compare.FreshFolderIn(folder, time.Now())
				r, err := q.Resolve()
				if err != nil {
					return nil, err
				}
				rec, _, err := compare.Do(ctx, r, host)
				if err == nil {
					err = compare.EndError(ctx, rec)
				} else {
					rec = nil // what was measured until then is no run
				}
				if err := compare.RemoveOldest(folder, q.Out, keep); err != nil {
					sanitize.Fprintf(env.Stderr, "venturi: cannot remove old records: %v\n", err)
				}
				return rec, err
			}
			sanitize.Fprintf(env.Stderr, "venturi: serving metrics at http://%s%s; measuring every %s; records in %s; Ctrl-C ends\n",
				listener.Addr(), watch.MetricsPath, opt.Interval, folder)
			return serveRuns(cmd.Context(), watch.New(measure, opt), listener)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&q.Loads, "load", nil, "loads to measure (default "+strings.Join(load.Default, ",")+")")
	f.DurationVar(&q.Budget, "budget", q.Budget, "time to measure in each run")
	f.DurationVar(&opt.Interval, "interval", opt.Interval, "time from one start to the next")
	f.StringVar(&listen, "listen", listen, "address at which to serve metrics")
	f.StringVar(&folder, "out", folder, "folder for the records and "+watch.HistoryFile)
	f.Var(number{&keep, 1, 1_000_000}, "keep", "records to keep")
	f.Var(number{&opt.FalseAlarm, 10, 1_000_000}, "false-alarm-runs", "average number of runs between false alarms")
	f.StringVar(&q.Wire, "wire", "", lab.WireHelp)
	f.BoolVar(&cluster, "kube", false, "measure in a Kubernetes cluster instead of a lab: see \"venturi kube compare --help\"")
	k.runFlags(f)
	k.set.VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	far.flags(f)
	return cmd
}

// serveRuns measures and serves until ctx ends or one of the two fails.
func serveRuns(ctx context.Context, s *watch.Service, listener net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		defer stop()
		served <- s.Serve(ctx, listener)
	}()
	err := s.Run(ctx)
	stop()
	return errors.Join(err, <-served)
}

// requestText says between what a request measures: ratios of another do not compare with it.
func requestText(q *compare.Request) string {
	words := slices.Clone(q.Paths)
	for _, m := range q.Remote.Machines {
		word := m.Name + "=" + m.Host
		if m.Port > 0 {
			word += fmt.Sprintf(":%d", m.Port)
		}
		if m.Addr.IsValid() {
			word += ",addr=" + m.Addr.String()
		}
		if m.Device != "" {
			word += ",dev=" + m.Device
		}
		words = append(words, word)
	}
	cards := "--dev"
	if q.Remote.Take {
		cards = "--take"
	}
	flags := [][2]string{{"--wire", q.Wire}, {cards, q.Remote.Dev}, {"--net", q.Remote.Net}}
	if c := q.Cluster; c != nil {
		words = append(words, "--kube")
		if c.Options.Level == kube.Node {
			words = append(words, "--node-agents")
		}
		flags = append(flags, [][2]string{{"-n", c.Options.Namespace}, {"--context", c.Access.Context}, {"--from", c.Options.From}, {"--to", c.Options.To},
			{"--nodes", strings.Join(c.Options.Nodes, ",")}}...)
	}
	for _, flag := range flags {
		if flag[1] != "" {
			words = append(words, flag[0]+" "+flag[1])
		}
	}
	return strings.Join(words, " ")
}

// resume reads the history of an earlier service in a folder, and makes sure that it
// can be kept there. One of something else is set aside.
func resume(folder, request string, opt *watch.Options) error {
	what := "cannot keep the history in " + folder
	if err := compare.MakeFolder(folder); err != nil {
		return verr.Wrap(verr.Failed, what, err, "name a writable folder with --out")
	}
	opt.Save = func(h watch.RatioHistory) error {
		_, err := compare.WriteBeside(folder, watch.HistoryFile, h.Write)
		return err
	}
	f, err := os.Open(filepath.Join(folder, watch.HistoryFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return verr.Wrap(verr.Failed, what, err, "make the file readable for this user")
	default:
		defer f.Close()
		if opt.History, err = watch.ReadRatios(io.LimitReader(f, watch.MostHistory)); err != nil {
			return verr.Wrap(verr.BadRecord, what, err, "remove "+watch.HistoryFile+" there to start over, or name another folder with --out")
		}
	}
	if old := opt.History; old.Request != "" && old.Request != request {
		aside, err := compare.WriteBeside(folder, watch.HistoryFile+".old", old.Write)
		if err != nil {
			return verr.Wrap(verr.Failed, what, err, "name another folder with --out")
		}
		sanitize.Fprintf(opt.Log, "venturi: the history in %s is of %q and is now in %s; a new one begins\n", folder, old.Request, aside)
		opt.History = watch.RatioHistory{}
	}
	opt.History.Request = request
	if err := opt.Save(opt.History); err != nil {
		return verr.Wrap(verr.Failed, what, err, "name a writable folder with --out")
	}
	return nil
}
