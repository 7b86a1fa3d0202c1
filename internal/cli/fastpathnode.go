package cli

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/watch"
)

// shadowLimit is for how long "enable" compares packets at most.
const shadowLimit = 10 * time.Second

// planConfig plans a fast path for this node. If nothing can be carried, it prints the plan, and
// the error says so.
func planConfig(env *Env, what string, nat bool, keep []string) (c fastpath.Config, err error) {
	plan, err := readPlan("", keep)
	if err != nil {
		return c, err
	}
	if !plan.CarriesAny() {
		if err := display.PrintFastPathPlan(env.Stdout, plan); err != nil {
			return c, err
		}
		return c, verr.New(verr.Missing, what, "the plan above shows that nothing can be carried here", "fix the reasons that it lists, and run it again")
	}
	c = plan.Config()
	c.NoNAT = !nat
	return c, nil
}

// enableNode enables a fast path. Whenever the node is wired in another way, it begins anew with a new
// plan: meanwhile packets take the node's own path.
func enableNode(ctx context.Context, env *Env, c fastpath.Config, o node.Options) (stats []fastpath.Stat, err error) {
	if o.Trial > 0 {
		return node.Enable(ctx, c, o)
	}
	for {
		wired, stop := node.UntilRewired(ctx, c, chooseConfig)
		stats, err = node.Enable(wired, c, o)
		rewired := errors.Is(context.Cause(wired), node.ErrRewired)
		if stop(); err != nil || !rewired {
			return stats, err
		}
		sanitize.Fprintf(env.Stderr, "venturi: the network of this node is wired in another way now: planning again\n")
		if c, err = planConfig(env, "cannot enable the fast path again", !c.NoNAT, c.KeepCounters); err != nil {
			return stats, err
		}
		o.Replace = false
	}
}

func chooseConfig() (c fastpath.Config, err error) {
	p, err := discover.Choose()
	if err != nil {
		return c, err
	}
	return p.Config(), nil
}

// serveNode serves the metrics of a fast path at an address until stop is called; empty: nowhere.
// The context ends with the one that is given, or when serving fails.
func serveNode(ctx context.Context, listen string) (serving context.Context, stop func() error, err error) {
	serving, cancel := context.WithCancelCause(ctx)
	if listen == "" {
		return serving, func() error { cancel(nil); return nil }, nil
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		cancel(nil)
		return nil, nil, verr.Wrap(verr.Failed, "cannot serve metrics at "+listen, err, "name another address with --listen")
	}
	done := make(chan error, 1)
	go func() {
		err := watch.ServeMetrics(serving, listener, node.Metrics{})
		cancel(err)
		done <- err
	}()
	return serving, func() error { cancel(nil); return <-done }, nil
}

// stayOff waits for the end of ctx if a fast path has ended because packets differed: whoever starts it
// again would only compare the next ones, until by chance none of them differs.
func stayOff(ctx context.Context, env *Env, err error) {
	if verr.Code(err) != verr.Findings {
		return
	}
	verr.Print(env.Stderr, err)
	sanitize.Fprintf(env.Stderr, "venturi: the fast path stays off here until this process (of a DaemonSet: its pod) is ended and started again\n")
	<-ctx.Done()
}

func readStatus() (node.Status, error) {
	s, err := node.ReadStatus()
	if err != nil {
		err = verr.Wrap(verr.Failed, "cannot read the fast path", err, "it may have ended in the meantime: run it again")
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
