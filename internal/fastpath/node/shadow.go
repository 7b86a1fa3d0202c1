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

// How long a comparison goes on when there were enough flows.
const (
	// shadowSettle: a packet that the network does not forward is found a second later.
	shadowSettle = 1200 * time.Millisecond
	// shadowDoubt is for when there is one, to see how many there are.
	shadowDoubt = 4 * time.Second
	// shadowRepeat is for when a flow is inconclusive, to see it again.
	shadowRepeat = 10 * time.Second
)

// untilSettled is how long a comparison goes on that has found so much when there were enough flows.
func untilSettled(found shadow.Result) time.Duration {
	switch {
	case found.Different() > 0:
		return shadowSettle
	case found.Inconclusive > 0:
		return shadowRepeat
	case found.NotForwarded() > 0 && found.Loss == nil:
		return shadowDoubt
	}
	return shadowSettle
}

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
	begun := false
	var enough time.Time // when there were enough flows
	compared := func(now shadow.Result) {
		found = now
		if !begun && o.Shadow.Limit > 0 {
			time.AfterFunc(o.Shadow.Limit, cancel)
		}
		begun = true
		if enough.IsZero() && o.Shadow.Flows > 0 && now.Flows >= o.Shadow.Flows {
			enough = time.Now()
		}
		if !enough.IsZero() && time.Since(enough) >= untilSettled(now) {
			cancel()
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
	const skip = "; --shadow 0 enables it without this check"
	first := slices.IndexFunc(found.Differences, func(d shadow.Mismatch) bool { return !d.IsLoss() })
	if first < 0 {
		return verr.New(verr.Findings, cannotEnable, found.Loss.String()+", which the fast path would carry",
			"find what drops them, such as a rule or a full queue; list lost packets with: venturi fastpath shadow"+skip)
	}
	why := fmt.Sprintf("%d of %d compared packets differ from the network's own; the first: %s", found.Different(), found.Compared(), found.Differences[first])
	return verr.New(verr.Findings, cannotEnable, why, "list all differences with: venturi fastpath shadow, and report them"+skip)
}
