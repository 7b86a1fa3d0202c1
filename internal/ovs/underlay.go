package ovs

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// poll is how often the daemon is asked for what it learns by itself.
const poll = 2 * time.Millisecond

// Reach tells the daemon's own datapath ("netdev") where the other end of
// tunnels is: behind a bridge whose own port has an address of the same
// network, at a MAC. It waits until the daemon has learned of that address from
// the kernel. Without it the daemon would ask by ARP, and lose the first packet
// of each tunnel while it does.
func (s *Switch) Reach(ctx context.Context, bridge string, addr netip.Addr, mac net.HardwareAddr) error {
	err := s.while(ctx, "learn of it from the kernel", func(ctx context.Context) error {
		for {
			answer, err := s.runtime.Ask(ctx, switchName, "ovs/route/lookup", addr.String())
			if err == nil && strings.Contains(answer, "dev "+bridge+"\n") {
				return nil
			}
			if host.Sleep(ctx, poll) != nil {
				return cmp.Or(err, fmt.Errorf("the switch knows of %q", strings.TrimSpace(answer)))
			}
		}
	})
	if err != nil {
		return fmt.Errorf("find the route to %s: %w", addr, err)
	}
	_, err = s.Ask(ctx, "tnl/neigh/set", bridge, addr.String(), mac.String())
	return err
}
