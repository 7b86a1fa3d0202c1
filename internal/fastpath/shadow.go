package fastpath

import (
	"context"

	"github.com/venturi-net/venturi/internal/fastpath/shadow"
)

// shadowReason is why a shadow carries nothing.
const shadowReason = "packets are only compared with those of the network (shadow)"

// startShadow compares packets until ctx ends, if this daemon is a shadow. The channel gets an
// error, if there is one, and is closed at the end.
func (d *daemon) startShadow(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() {
		defer close(done)
		if !d.Shadow {
			<-ctx.Done()
			return
		}
		if err := shadow.Run(ctx, d.objs.Records(), d.shadowState, d.compared); err != nil {
			done <- err
		}
	}()
	return done
}

// shadowState is what differs when rules, pods or peers have changed.
func (d *daemon) shadowState() (s shadow.State, err error) {
	if err := d.objs.Epoch.Get(&s.Epoch); err != nil {
		return s, err
	}
	return s, d.objs.Version.Get(&s.Version)
}
