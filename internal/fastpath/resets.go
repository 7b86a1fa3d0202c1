package fastpath

import (
	"context"
	"maps"
	"sync"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
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
// (10 s) or, since Linux 6.12.117 and others of that month, of one with unacknowledged data (5 minutes,
// "use UNACK timeout for non-closing RST packets"). Until that expires, rules would take a new
// connection between the same ports for the old one. An end that does not accept a reset answers at
// once (RFC 5961), and conntrack gives the entry the timeout of an established one again. Without an
// answer, the connection is over.
//
// Or it was answered late, or not, as Linux answers two a second; or the answer left the timeout of
// unacknowledged data, as the reset itself may look like such data: those that are used after that are
// established again.
func (f *flows) closeResets(ctx context.Context, track *kernel.Conntrack) error {
	tick := time.NewTicker(reopenEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			err = f.closed.reopen(track)
		case c := <-f.resets:
			err = f.closeSilent(ctx, c, track)
		}
		if err != nil {
			return err
		}
	}
}

// closedConns are connections that were closed, and when those have expired that were not used since.
// The conntrack entry of a later one between the same ports may not be told from theirs: so they are
// forgotten when conntrack says that they ended.
type closedConns struct {
	mu    sync.Mutex
	all   map[kernel.Connection]time.Time
	short bool // this kernel was seen to give connections that were reset the timeout of closed ones
}

// closeSilent closes connections whose resets are not answered.
func (f *flows) closeSilent(ctx context.Context, first kernel.Connection, track *kernel.Conntrack) error {
	all := []kernel.Connection{first}
	for len(f.resets) > 0 {
		all = append(all, <-f.resets)
	}
	if host.Sleep(ctx, resetGrace) != nil {
		return nil
	}
	timeouts, err := readResetTimeouts()
	if err != nil {
		return err
	}
	return f.closed.close(all, timeouts, track)
}

// close closes those of the connections that expire as ones do that were reset.
func (c *closedConns) close(all []kernel.Connection, after resetTimeouts, track *kernel.Conntrack) error {
	c.mu.Lock() // or one might end before it is noted
	defer c.mu.Unlock()
	if len(c.all)+len(all) > maxResets { // one that is used since could not be established again
		return nil
	}
	some, unused, err := track.CloseReset(all, after.closed)
	c.note(some, unused)
	c.short = c.short || len(some) > 0
	if err != nil || c.short {
		return err
	}
	some, unused, err = track.CloseReset(all, after.unacknowledged)
	c.note(some, unused)
	return err
}

func (c *closedConns) note(some []kernel.Connection, unused time.Time) {
	for _, of := range some {
		c.all[of] = unused
	}
}

// reopen establishes those connections again that were used since they were closed, and forgets them,
// and those that have expired.
func (c *closedConns) reopen(track *kernel.Conntrack) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) == 0 {
		return nil
	}
	alive, err := kernel.ReadTimeouts(timeoutSysctls)
	if err != nil {
		return err
	}
	now := time.Now()
	open, err := track.Reopen(c.all, time.Duration(alive[syscall.IPPROTO_TCP].Established)*time.Second)
	for _, of := range open {
		delete(c.all, of)
	}
	maps.DeleteFunc(c.all, func(_ kernel.Connection, unused time.Time) bool { return unused.Before(now) })
	return err
}

// end forgets those that conntrack says have ended, by either tuple, or all if it may not have said it.
func (c *closedConns) end(some []kernel.Ended, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if lost {
		clear(c.all)
	}
	for _, e := range some {
		delete(c.all, e.Connection)
		delete(c.all, e.Replies)
	}
}

// resetTimeouts are those that a reset may give a connection; 0: it is not told by that.
type resetTimeouts struct {
	closed         time.Duration
	unacknowledged time.Duration // since Linux 6.12.117
}

func readResetTimeouts() (t resetTimeouts, err error) {
	const closed, unacknowledged = 0, 1 // in place of protocols
	reset, err := kernel.ReadTimeouts(map[uint8][]string{closed: {"tcp_timeout_close"}, unacknowledged: {"tcp_timeout_unacknowledged"}})
	if err != nil {
		return t, err
	}
	all, err := kernel.ReadTimeouts(timeoutSysctls)
	if err != nil {
		return t, err
	}
	alive := all[syscall.IPPROTO_TCP]
	if reset[closed].Shortest < alive.Shortest { // or an established one may have as short a one
		t.closed = time.Duration(reset[closed].Shortest) * time.Second
	}
	// A packet leaves one that was closed the timeout of closed ones: it must be seen before that is over.
	if time.Duration(reset[closed].Shortest)*time.Second > 2*reopenEvery && reset[unacknowledged].Shortest < alive.Established {
		t.unacknowledged = time.Duration(reset[unacknowledged].Shortest) * time.Second
	}
	return t, nil
}
