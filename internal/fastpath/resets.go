package fastpath

import (
	"context"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
)

const (
	// resetGrace is how long the end of a connection has to answer a reset that it does not accept.
	resetGrace = 300 * time.Millisecond
	// maxResets is how many resets wait at most. For one more, the entry stays until it expires.
	maxResets = 4096
	// reopenEvery is how often closed connections are looked at.
	reopenEvery = 2 * time.Second
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
//
// Or it was answered late, or not, as Linux answers two a second: those that are used after that are
// established again.
func (f *flows) closeResets(ctx context.Context, track *kernel.Conntrack) error {
	tick := time.NewTicker(reopenEvery)
	defer tick.Stop()
	var closed []closedConns
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			closed, err = reopen(closed, track)
		case c := <-f.resets:
			var more closedConns
			more, err = f.closeSilent(ctx, c, track)
			if closed = append(closed, more); len(more.all) == 0 || countConns(closed) > maxResets {
				closed = closed[:len(closed)-1]
			}
		}
		if err != nil {
			return err
		}
	}
}

// closedConns are connections that were closed together, and when those have expired that were not
// used since.
type closedConns struct {
	all    []kernel.Entry
	unused time.Time
}

func countConns(all []closedConns) (n int) {
	for _, c := range all {
		n += len(c.all)
	}
	return n
}

// closeSilent closes connections whose resets are not answered.
func (f *flows) closeSilent(ctx context.Context, first kernel.Connection, track *kernel.Conntrack) (c closedConns, err error) {
	all := []kernel.Connection{first}
	for len(f.resets) > 0 {
		all = append(all, <-f.resets)
	}
	select {
	case <-ctx.Done():
		return c, nil
	case <-time.After(resetGrace):
	}
	within, err := resetTimeout()
	if err != nil || within == 0 {
		return c, err
	}
	c.all, c.unused, err = track.CloseReset(all, within)
	return c, err
}

// reopen establishes those connections again that were used since they were closed, and returns those
// that are to be looked at again.
func reopen(closed []closedConns, track *kernel.Conntrack) (left []closedConns, err error) {
	if len(closed) == 0 {
		return nil, nil
	}
	alive, err := readTimeouts(timeoutSysctls)
	if err != nil {
		return nil, err
	}
	established := time.Duration(alive[protoTCP].established) * time.Second
	for _, c := range closed {
		over := time.Now().After(c.unused)
		open, err := track.Reopen(c.all, c.unused, established)
		if err != nil {
			return nil, err
		}
		c.all = slices.DeleteFunc(c.all, func(e kernel.Entry) bool { return slices.Contains(open, e) })
		if !over && len(c.all) > 0 {
			left = append(left, c)
		}
	}
	return left, nil
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
