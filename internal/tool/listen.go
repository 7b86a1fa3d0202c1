package tool

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// awaitListen returns when the process itself listens on a port. Asking
// by connecting would not do: it would count as a client.
func (p *process) awaitListen(ctx context.Context, port int) error {
	const limit = 5 * time.Second
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	at := netip.AddrPortFrom(netip.Addr{}, uint16(port))
	for {
		if host.ListensAt(p.cmd.Process.Pid, at) {
			return nil
		}
		select {
		case <-p.done:
			if err := p.failure(); err != nil {
				return err
			}
			return errors.New("it ended at once")
		case <-deadline.C:
			return fmt.Errorf("it does not listen on port %d after %v", port, limit)
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
}
