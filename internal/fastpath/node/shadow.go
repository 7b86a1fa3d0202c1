package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/shadow"
	"github.com/venturi-net/venturi/internal/verr"
)

// ShadowOptions say how long packets are compared with those of the network.
type ShadowOptions struct {
	Flows  int                 // until packets of so many flows were compared; 0: [Enable] compares none, and [Shadow] goes on
	Limit  time.Duration       // but no longer than this; 0: there is no limit
	Report func(shadow.Result) // called with what was found until then; nil: nobody wants to know
	// Compared is called by [Enable] with the result for IPv4 or IPv6, before it carries that version.
	Compared func(family string, found shadow.Result)
}

const (
	// shadowSettle is for how long it goes on when there were enough flows: a packet that the network
	// does not pass on is found a second later.
	shadowSettle = 1200 * time.Millisecond
	// shadowDoubt is for how long it goes on from then if there is one, to see how many there are.
	shadowDoubt = 3 * time.Second
)

// Shadow compares what a fast path would send with what the network sends, until ctx ends or
// somebody disables it. It carries nothing.
func Shadow(ctx context.Context, c fastpath.Config, o Options) (found shadow.Result, err error) {
	_, err = install(ctx, o, func(f files, _ bool) (err error) {
		found, err = f.compare(ctx, c, o)
		return err
	})
	return found, err
}

// compare runs a shadow.
func (f files) compare(ctx context.Context, c fastpath.Config, o Options) (found shadow.Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.Shadow = true
	begun, doubt := false, false
	var enough *time.Timer
	compared := func(now shadow.Result) {
		found = now
		if !begun && o.Shadow.Limit > 0 {
			time.AfterFunc(o.Shadow.Limit, cancel)
		}
		begun = true
		if enough == nil && o.Shadow.Flows > 0 && now.Flows >= o.Shadow.Flows {
			enough = time.AfterFunc(shadowSettle, cancel)
		}
		if !doubt && enough != nil && now.NotForwarded() > 0 && !now.IsDifferent() && enough.Stop() {
			doubt = true
			enough.Reset(shadowDoubt)
		}
		if o.Shadow.Report != nil {
			o.Shadow.Report(now)
		}
	}
	run := func(ctx context.Context) error { return f.daemon(ctx, c, o.Report, compared) }
	err = f.serve(ctx, run, func() {})
	return found, err
}

// compareFirst compares what would be carried of each version of IP, one after the other. carry is false if
// a packet differs, if too many are not forwarded, or if somebody has ended it meanwhile.
func (f files) compareFirst(ctx context.Context, c Configs, o Options) (carry bool, err error) {
	for _, one := range []struct {
		family string
		*fastpath.Config
	}{{"IPv4", c.IPv4}, {"IPv6", c.IPv6}} {
		if one.Config == nil {
			continue
		}
		found, err := f.compare(ctx, *one.Config, o)
		if err == nil {
			err = refusal(found)
		}
		if err != nil || ctx.Err() != nil || f.stopRequested() {
			return false, err
		}
		if o.Shadow.Compared != nil {
			o.Shadow.Compared(one.family, found)
		}
	}
	return true, nil
}

// refusal is why nothing is to be carried after what a shadow has found; nil: nothing speaks
// against it.
func refusal(found shadow.Result) error {
	if !found.IsDifferent() {
		return nil
	}
	const what, list = "cannot enable the fast path", "list all differences with: venturi fastpath shadow; "
	first := slices.IndexFunc(found.Differences, func(d shadow.Mismatch) bool { return !d.IsLoss() })
	if first < 0 {
		return verr.New(verr.Findings, what, found.Loss.String()+", which the fast path would carry",
			list+"find what drops them: a rule, or a queue that is full; --shadow 0 enables it without this check")
	}
	why := fmt.Sprintf("%d of %d compared packets differ from the network's own; the first: %s", found.Different(), found.Compared(), found.Differences[first])
	return verr.New(verr.Findings, what, why, list+"and report them; --shadow 0 enables it without this check")
}
