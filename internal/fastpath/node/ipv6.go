package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
)

// carry runs the daemons of both versions of IP, until ctx ends, another process takes over, or the
// daemon for IPv4 fails. While that for IPv6 has failed, its flows take the slow path, and those of IPv4
// are carried on; if there is no other, this ends.
func (f files) carry(ctx context.Context, c Configs, o Options) error {
	if err := f.removeUnused(ctx, c); err != nil {
		return err
	}
	if c.IPv4 == nil {
		return f.carryIPv6(ctx, *c.IPv6, o.ReportIPv6)
	}
	if c.IPv6 == nil {
		return f.daemon(ctx, *c.IPv4, o.Report, nil)
	}
	beside, end := context.WithCancelCause(ctx)
	defer end(nil)
	done := make(chan error, 1)
	go func() { done <- f.carryBeside(beside, *c.IPv6, o) }()
	err := f.daemon(ctx, *c.IPv4, o.Report, nil)
	if err == nil && ctx.Err() == nil { // another process has taken over, which does so with IPv6
		end(fastpath.ErrHandOver)
	}
	end(nil)
	return errors.Join(err, <-done)
}

// retryIPv6 is how long after a failure the daemon for IPv6 is started again.
var retryIPv6 = time.Minute

// carryBeside runs the daemon for IPv6 until ctx ends or another process takes over. If it fails, that is
// reported, nothing is left of it but its state, which says why, and it is started again after a while.
func (f files) carryBeside(ctx context.Context, c fastpath.Config, o Options) error {
	for {
		failed := f.carryIPv6(ctx, c, o.ReportIPv6)
		if failed == nil {
			return nil
		}
		off := fastpath.OffState(fmt.Sprintf("its daemon has failed, and is started again after %v: %v", retryIPv6, failed))
		if o.ReportIPv6 != nil {
			o.ReportIPv6(off)
		}
		removed := f.removeIPv6(context.WithoutCancel(ctx))
		if ctx.Err() != nil {
			return removed
		}
		if err := errors.Join(removed, f.ipv6().writeState(c, off)); err != nil && o.ReportIPv6 != nil {
			o.ReportIPv6(fastpath.OffState(err.Error()))
		}
		if host.Sleep(ctx, retryIPv6) != nil {
			return f.removeIPv6(context.WithoutCancel(ctx))
		}
	}
}

// writeState writes what a daemon writes that carries nothing.
func (f files) writeState(c fastpath.Config, s fastpath.State) error {
	if err := kernel.MountPins(f.pins); err != nil {
		return err
	}
	c.Pins, c.State = f.pins, f.state
	return errors.Join(c.Write(f.config), s.Write(f.state))
}

// carryIPv6 runs the daemon for IPv6 until ctx ends or another process takes over. If it was to hand
// over, what it has made stays.
func (f files) carryIPv6(ctx context.Context, c fastpath.Config, report func(fastpath.State)) error {
	six := f.ipv6()
	if err := kernel.MountPins(six.pins); err != nil {
		return err
	}
	err := six.daemon(ctx, c, report, nil)
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), fastpath.ErrHandOver) {
		return err
	}
	return errors.Join(err, f.removeIPv6(context.WithoutCancel(ctx)))
}

// removeUnused removes what an earlier process has left of a version of IP that is carried no longer.
func (f files) removeUnused(ctx context.Context, c Configs) error {
	if c.IPv6 == nil {
		if err := f.removeIPv6(ctx); err != nil {
			return err
		}
	}
	if c.IPv4 != nil {
		return nil
	}
	if err := fastpath.Remove(ctx, f.pins); err != nil {
		return err
	}
	return kernel.RemoveFiles(f.config, f.state)
}

// removeIPv6 removes all that is there for IPv6, if anything is.
func (f files) removeIPv6(ctx context.Context) error {
	six := f.ipv6()
	if _, err := os.Stat(six.folder); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := fastpath.Remove(ctx, six.pins); err != nil {
		return err // what is left of it is found by its pins
	}
	return kernel.RemovePins(six.folder)
}
