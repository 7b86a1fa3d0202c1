package agent

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
)

// What the tests outside of the package look at. They are outside because the
// test environment stands on packages that may come to use this one.
var (
	ListenClosed = listenClosed
	Peer         = peer
	QuietRuntime = quietRuntime
	MeterArms    = meterArms
	ClientSide   = clientSide
	OwnThreads   = ownThreads
)

const MemoryLimit = memoryLimit

// Guard makes a listener that asks allow about each peer.
func Guard(l *net.UnixListener, allow func(uint32) bool) net.Listener {
	return &guarded{UnixListener: l, allow: allow}
}

// StopSeries tells the agent to end a series, and gives whether it ran. The
// product does so only when the context of its own Run ends.
func (c *Client) StopSeries(ctx context.Context, token uint64) (running bool, err error) {
	reply, err := c.api.Stop(ctx, &agentpb.StopRequest{Token: token})
	return reply.GetRunning(), err
}

// ShortGrace makes an agent end soon, until the test is over.
func ShortGrace(t *testing.T) {
	old := stopGrace
	stopGrace = 50 * time.Millisecond
	t.Cleanup(func() { stopGrace = old })
}

// ShortGuestCall makes agents give up those in virtual machines soon, until the
// test is over.
func ShortGuestCall(t *testing.T, limit time.Duration) {
	old := guestCall
	guestCall = limit
	t.Cleanup(func() { guestCall = old })
}

// Parts of [Linger], on a file that tests choose.
var (
	LingerOn     = linger
	LockPresence = lockPresence
)
