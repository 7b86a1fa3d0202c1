package cli

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// fastPathWish is what "fastpath enable" is asked to carry.
type fastPathWish node.Wish

// inherit takes what was not given from the running process, if there is one.
func (w *fastPathWish) inherit(given *pflag.FlagSet) error {
	running, err := node.RunningWish()
	if err != nil {
		return verr.Wrap(verr.Failed, "cannot take over the fast path", err, "end it with: venturi fastpath disable")
	}
	if running == nil {
		return nil
	}
	if !given.Changed("ipv6") {
		w.IPv6 = running.IPv6
	}
	if !given.Changed("nat") {
		w.NAT = running.NAT
	}
	if w.KeepCounters == nil {
		w.KeepCounters = running.KeepCounters
	}
	return nil
}

// checkEnableFlags refuses a trial, a number of flows or a time for comparing them that makes no sense.
func checkEnableFlags(given *pflag.FlagSet, trial time.Duration, flows int, limit time.Duration) error {
	unlimited := limit == 0
	switch err := checkTrial(given, trial); {
	case err != nil:
		return err
	case flows < 0:
		return verr.New(verr.Usage, "cannot compare packets of "+strconv.Itoa(flows)+" flows", "--shadow is less than 0", "give a number of flows, or 0 to compare none")
	case !unlimited && limit < time.Second:
		return verr.New(verr.Usage, "cannot compare packets for "+limit.String(), "--shadow-time is shorter than a second", "give a time such as 30s, or 0 for as long as it takes")
	case unlimited && trial > 0 && flows > 0:
		return verr.New(verr.Usage, "cannot compare packets without a time limit before a trial", "the end of a trial is fixed when it begins", "give --shadow-time, such as 10m, or --shadow 0 to compare none")
	}
	return nil
}

// plan plans a fast path for this node. If nothing can be carried, it prints why, and the error says so.
// With IPv6, one version of IP is enough.
func (w fastPathWish) plan(env *Env, what string) (c node.Configs, err error) {
	if !w.IPv6 {
		four, err := planConfig(what, audit.IPv4, w.NAT, w.KeepCounters, func(p *discover.Plan) error { return refusePlans(env.Stdout, what, p) })
		return node.Configs{IPv4: &four}, err
	}
	four, err := readPlan(what, "", audit.IPv4, w.KeepCounters)
	if err != nil {
		return c, err
	}
	six, err := readPlan(what, "", audit.IPv6, w.KeepCounters)
	if err != nil {
		if !four.CarriesAny() {
			return c, err
		}
		sanitize.Fprintf(env.Stderr, "venturi: IPv4 is carried alone, because no IPv6 can be carried: %v\n", err)
		return node.Configs{IPv4: w.config(env, four, "IPv4", "")}, nil
	}
	if !four.CarriesAny() && !six.CarriesAny() {
		return c, refusePlans(env.Stdout, what, four, six)
	}
	return node.Configs{IPv4: w.config(env, four, "IPv4", "venturi fastpath plan"), IPv6: w.config(env, six, "IPv6", "venturi fastpath plan --ipv6")}, nil
}

// config is that of a plan; nil: nothing can be carried, which is said.
func (w fastPathWish) config(env *Env, p *discover.Plan, family, command string) *fastpath.Config {
	if !p.CarriesAny() {
		sanitize.Fprintf(env.Stderr, "venturi: no %s can be carried now, and this is checked again every minute; \"%s\" says why\n", family, command)
		return nil
	}
	c := p.Config()
	c.NoNAT = !w.NAT
	return &c
}

// enableNode enables a fast path. Whenever the node is wired in another way, it begins anew with a new
// plan: meanwhile packets take the node's own path.
func enableNode(ctx context.Context, env *Env, c node.Configs, w fastPathWish, o node.Options) (stats node.FamilyStats, err error) {
	if o.Trial > 0 {
		return node.Enable(ctx, c, o)
	}
	for {
		wired, stop := w.untilRewired(ctx, c)
		stats, err = node.Enable(wired, c, o)
		rewired := errors.Is(context.Cause(wired), node.ErrRewired) && !stats.Disabled
		if stop(); err != nil || !rewired {
			return stats, err
		}
		sanitize.Fprintf(env.Stderr, "venturi: the wiring of this node's network has changed: planning again\n")
		if c, err = w.plan(env, "cannot enable the fast path again"); err != nil {
			return stats, err
		}
		o.Replace = false
	}
}

// untilRewired gives a context that ends when other devices should be followed for a version of IP, or
// when one can be carried of which nothing could be.
func (w fastPathWish) untilRewired(ctx context.Context, c node.Configs) (context.Context, context.CancelFunc) {
	wired, stop := w.untilFamilyRewired(ctx, audit.IPv4, c.IPv4)
	if !w.IPv6 {
		return wired, stop
	}
	wired, stop6 := w.untilFamilyRewired(wired, audit.IPv6, c.IPv6)
	return wired, func() { stop6(); stop() }
}

func (w fastPathWish) untilFamilyRewired(ctx context.Context, family audit.Family, c *fastpath.Config) (context.Context, context.CancelFunc) {
	if c == nil {
		return node.UntilRewired(ctx, fastpath.Config{}, func() (fastpath.Config, error) { return w.choosePlanned(family) })
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
func (w fastPathWish) choosePlanned(family audit.Family) (c fastpath.Config, err error) {
	p, err := readPlan("cannot plan a fast path", "", family, w.KeepCounters)
	if err != nil || !p.CarriesAny() {
		return c, err
	}
	return p.Config(), nil
}
