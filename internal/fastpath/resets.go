package fastpath

import (
	"context"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
)

const (
	// resetGrace is how long the end of a connection has to answer a reset that it does not accept.
	resetGrace = 300 * time.Millisecond
	// maxResets is how many resets wait at most. For one more, the entry stays until it expires.
	maxResets = 4096
)

// noteReset has the conntrack entry of a flow looked at, a moment after its connection was reset.
func (f *flows) noteReset(k bpf.FlowKey) {
	c, ok := connection(f.objs, k)
	if !ok {
		return
	}
	select {
	case f.resets <- c:
	default:
	}
}

// closeResets closes the conntrack entries of connections that were reset, until ctx ends.
//
// Conntrack has not seen the last sequence numbers of a carried connection. So it does not know
// whether a reset ends it: it leaves the entry established, with the timeout of one that is closed
// (10 s). Until that expires, rules would take a new connection between the same ports for the old
// one. An end that does not accept a reset answers at once (RFC 5961), and conntrack gives the entry
// the timeout of an established one again. Without an answer, the connection is over.
func (f *flows) closeResets(ctx context.Context, track *kernel.Conntrack) error {
	for {
		var all []kernel.Connection
		select {
		case <-ctx.Done():
			return nil
		case c := <-f.resets:
			all = append(all, c)
		}
		for len(f.resets) > 0 {
			all = append(all, <-f.resets)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(resetGrace):
		}
		within, err := resetTimeout()
		if err == nil && within > 0 {
			err = track.CloseReset(all, within)
		}
		if err != nil {
			return err
		}
	}
}

// resetTimeout is the timeout that a reset gives a connection; 0: an established connection may have
// as short a one.
func resetTimeout() (time.Duration, error) {
	reset, err := readTimeouts(map[uint8][]string{protoTCP: {"tcp_timeout_close"}})
	if err != nil {
		return 0, err
	}
	alive, err := readTimeouts(timeoutSysctls)
	if err != nil || alive[protoTCP].shortest <= reset[protoTCP].shortest {
		return 0, err
	}
	return time.Duration(reset[protoTCP].shortest) * time.Second, nil
}
