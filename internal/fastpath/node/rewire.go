package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
)

// ErrRewired is the cause with which a context of [UntilRewired] ends.
var ErrRewired = errors.New("the network of this node is wired in another way")

// rewireEvery is how often the node is looked at. It takes some milliseconds of CPU time with a
// thousand pods.
const rewireEvery = time.Minute

// UntilRewired gives a context that ends when a fast path of this node should follow other devices
// than those of c: it may have been enabled before the tunnel was there, or a first peer. choose
// tells what it should follow now. It has to say so twice in a row, since a network that is restarted
// is without its devices for a while.
func UntilRewired(ctx context.Context, c fastpath.Config, choose func() (fastpath.Config, error)) (context.Context, context.CancelFunc) {
	watched, cancel := context.WithCancelCause(ctx)
	go func() {
		ticks := time.NewTicker(rewireEvery)
		defer ticks.Stop()
		for last := c; ; {
			select {
			case <-watched.Done():
				return
			case <-ticks.C:
			}
			now, err := choose()
			switch {
			case err != nil || now.Kind == "": // it changes just now, or there is nothing to follow
				last = c
			case followsSame(now, c) || !followsSame(now, last):
				last = now
			default:
				cancel(ErrRewired)
				return
			}
		}
	}()
	return watched, func() { cancel(nil) }
}

// followsSame tells whether two configurations follow the same devices in the same way.
func followsSame(a, b fastpath.Config) bool {
	return a.Kind == b.Kind && a.Port == b.Port && a.Devices.Wire == b.Devices.Wire &&
		(a.Devices.GenevePort != 0 || slices.Equal(a.Devices.Tunnels, b.Devices.Tunnels)) // geneve devices are followed as they come and go
}
