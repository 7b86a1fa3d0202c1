package node

import (
	"context"
	"errors"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
)

// withIPv6 runs a daemon, and beside it the one for IPv6, until ctx or the first of the two ends. If that
// for IPv6 fails, its flows take the slow path, and those of IPv4 are carried on. Another process that
// takes over begins anew with IPv6.
func (f files) withIPv6(ctx context.Context, o Options, main func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f.serveIPv6(ctx, o) }()
	err := main(ctx)
	cancel()
	return errors.Join(err, <-done)
}

// serveIPv6 runs the daemon for IPv6 until ctx ends, and removes its files. The error is that of removing
// them.
func (f files) serveIPv6(ctx context.Context, o Options) error {
	six := f.ipv6()
	if err := kernel.MountPins(six.pins); err != nil {
		return err
	}
	c := *o.IPv6
	c.Pins, c.State = six.pins, six.state
	report, stopReports := latest(o.ReportIPv6)
	defer stopReports()
	err := c.Write(six.config)
	if err == nil {
		err = fastpath.Main(ctx, fastpath.Options{Config: six.config, Report: report})
	}
	if err != nil && report != nil {
		report(fastpath.State{Off: "its daemon has failed: " + err.Error()})
	}
	return errors.Join(fastpath.Remove(context.WithoutCancel(ctx), six.pins), kernel.RemovePins(six.folder))
}
