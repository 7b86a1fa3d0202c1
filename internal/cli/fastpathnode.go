package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/watch"
)

// refusePlans prints plans by which nothing can be carried, and gives the error that says so.
func refusePlans(out io.Writer, what string, plans ...*discover.Plan) error {
	for _, p := range plans {
		if err := display.PrintFastPathPlan(out, p); err != nil {
			return err
		}
	}
	return verr.New(verr.Missing, what, "nothing can be carried here, for the reasons above", "remove the causes, and run the command again")
}

// onlyRootChanges is why a user may not change anything.
const onlyRootChanges = "only root may change a machine"

// needRoot refuses a user what takes root.
func needRoot(what, why string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return verr.New(verr.Permission, what, why, "run it as root, or through sudo")
}

// readPlan finds what a fast path would carry in a network namespace, if it keeps counters of some
// kinds true. Errors begin with what.
func readPlan(what, netns string, family audit.Family, keep []string) (plan *discover.Plan, err error) {
	if err := needRoot(what, "only root can read rules, programs and the other ends of pods' devices"); err != nil {
		return nil, err
	}
	file, err := netnsFile(netns)
	if err != nil {
		return nil, err
	}
	if err := feature.RequireHere(what, feature.Programs); err != nil {
		return nil, err
	}
	err = host.Do(file, func() error {
		if plan, err = discover.Find(family); err == nil {
			plan.Keep(keep)
		}
		return err
	})
	if err != nil && !errors.As(err, new(*verr.Error)) {
		err = verr.Wrap(verr.Failed, what, err, "run the command again; if it fails again, report it with the output of \"venturi version\"")
	}
	return plan, err
}

// familyOf is the version of IP that a flag asks for.
func familyOf(ipv6 bool) audit.Family {
	if ipv6 {
		return audit.IPv6
	}
	return audit.IPv4
}

// replacedWait is how long the process from which this one takes over may take to end, and so to free the address of its
// metrics.
var replacedWait = host.ScaleTimeout(time.Minute)

// serveNode serves the metrics of a fast path until stop is called; nil: nowhere. The context ends with the one that is
// given, or when serving fails. If the address is that of the process from which this one takes over, they are
// served once that one has ended, and if somebody else has it then, not at all.
func serveNode(ctx context.Context, env *Env, at *listener, replace bool) (serving context.Context, stop func() error, err error) {
	serving, cancel := context.WithCancelCause(ctx)
	if at == nil {
		return serving, func() error { cancel(nil); return nil }, nil
	}
	listener, err := at.listen()
	ending := replace && isInUse(err) && node.ListensAt(at.addr.AddrPort())
	if err != nil && !ending {
		cancel(nil)
		return nil, nil, err
	}
	if ending {
		sanitize.Fprintf(env.Stderr, "venturi: metrics are served at %s once the process that runs here has ended\n", at.addr)
	}
	done := make(chan error, 1)
	go func() {
		err := error(nil)
		if ending {
			listener, err = at.listenAfter(serving, replacedWait)
		}
		if err != nil {
			if serving.Err() == nil { // by now, this process carries, which counts for more than metrics
				verr.Print(env.Stderr, err)
				sanitize.Fprintf(env.Stderr, "venturi: the fast path goes on without metrics\n")
			}
			done <- nil
			return
		}
		err = watch.ServeMetrics(serving, listener, new(node.Metrics))
		cancel(err)
		done <- err
	}()
	return serving, func() error { cancel(nil); return <-done }, nil
}

// stayOff waits for the end of ctx if a fast path has ended because packets differed, or was disabled on
// the node: whoever starts it again would only compare the next packets, until by chance none of them
// differs, or undo what somebody wanted. It prints the error before it waits, and gives what remains of it.
func stayOff(ctx context.Context, env *Env, err error, disabled bool) error {
	if verr.Code(err) != verr.Findings && !disabled {
		return err
	}
	if err != nil {
		for _, one := range splitJoined(err) {
			verr.Print(env.Stderr, unforeseen("venturi fastpath enable", one))
		}
		err = exitCode(verr.Code(err))
	}
	if disabled {
		sanitize.Fprintf(env.Stderr, "venturi: the fast path was disabled on this node\n")
	}
	sanitize.Fprintf(env.Stderr, "venturi: the fast path stays off here until this process is restarted (in a DaemonSet: delete its pod)\n")
	<-ctx.Done()
	return err
}

func readStatus() (node.Status, error) {
	const what = "cannot read the fast path"
	if err := needRoot(what, "only root can read its tables"); err != nil {
		return node.Status{}, err
	}
	s, err := node.ReadStatus()
	if err != nil {
		err = verr.Wrap(verr.Failed, what, err, "it may have ended in the meantime: run the command again")
	}
	return s, err
}

func readFastPath() (display.FastPathReport, error) {
	s, err := readStatus()
	if err != nil {
		return display.FastPathReport{}, err
	}
	return display.NewFastPathReport(s), nil
}

// watchFastPath prints each second what becomes of packets, until ctx ends or the fast path is
// disabled.
func watchFastPath(ctx context.Context, env *Env, before display.FastPathReport) error {
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-seconds.C:
		}
		now, err := readFastPath()
		if err != nil {
			return err
		}
		if !now.Enabled {
			return now.Print(env.Stdout)
		}
		if err := now.PrintRate(env.Stdout, before, time.Since(last)); err != nil {
			return err
		}
		before, last = now, time.Now()
	}
}
