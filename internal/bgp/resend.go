package bgp

import (
	"context"
	"net/netip"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/server"
)

// The library sends a neighbour all routes just before it takes the session
// with it for established, and what it learns it sends to neighbours whose
// session is. What comes in between the two is sent to nobody, ever: of fifty
// machines that start at once, one now and then lacked the block of another. So
// a neighbour is sent all routes once more as soon as its session is taken for
// established (seen in version 4.8.0).

const (
	resendPoll  = 5 * time.Millisecond
	resendLimit = 10 * time.Second // of a look for the session
)

// resend sends all routes to each neighbour whose session has come up, until
// ctx ends.
func resend(ctx context.Context, s *server.BgpServer, t *table) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.up:
		}
		for _, neighbour := range t.takeFresh() {
			if isUp(ctx, s, neighbour) {
				// It fails only when the neighbour has gone meanwhile.
				_ = s.ResetPeer(ctx, &api.ResetPeerRequest{
					Address: neighbour.String(), Soft: true, Direction: api.ResetPeerRequest_DIRECTION_OUT,
				})
			}
		}
	}
}

// isUp waits until the library takes a session for established. False: it went
// down again.
func isUp(ctx context.Context, s *server.BgpServer, neighbour netip.Addr) bool {
	for late := time.Now().Add(resendLimit); time.Now().Before(late) && ctx.Err() == nil; time.Sleep(resendPoll) {
		up := false
		err := s.ListPeer(ctx, &api.ListPeerRequest{Address: neighbour.String()}, func(p *api.Peer) {
			up = p.State.SessionState == api.PeerState_SESSION_STATE_ESTABLISHED
		})
		if up || err != nil {
			return up
		}
	}
	return false
}
