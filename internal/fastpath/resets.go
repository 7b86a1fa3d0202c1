package fastpath

import (
	"errors"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
)

// reset is an RST of a connection that was carried; see bpf/src/reset.h.
type reset struct {
	conn   kernel.Connection
	closes bool // it ends the connection; otherwise it is too old to do so
}

// resetWaits are the waits for conntrack to see an RST, which the programs announce first.
var resetWaits = []time.Duration{0, time.Millisecond, 10 * time.Millisecond}

// settleResets puts right what conntrack makes of RSTs whose sequence numbers it cannot
// judge: it leaves the connection established, and lets it expire after the timeout of
// closed ones.
func settleResets(all []reset, track *kernel.Conntrack) error {
	if len(all) == 0 {
		return nil
	}
	closed, err := readSeconds("tcp_timeout_close")
	if err != nil {
		return err
	}
	established, err := readSeconds("tcp_timeout_established")
	if err != nil || closed >= established {
		return err // nothing tells the two states apart
	}
	for _, wait := range resetWaits {
		time.Sleep(wait)
		conns := make([]kernel.Connection, len(all))
		for i, r := range all {
			conns[i] = r.conn
		}
		var unseen []reset
		var updates []kernel.Update
		err := track.Remaining(conns, func(i int, is kernel.ConnState, remaining time.Duration) {
			switch {
			case is != kernel.ConnEstablished: // conntrack has judged for itself
			case remaining > closed:
				unseen = append(unseen, all[i])
			case all[i].closes:
				updates = append(updates, kernel.Update{Conn: conns[i], Closed: true})
			default:
				updates = append(updates, kernel.Update{Conn: conns[i], Timeout: established})
			}
		})
		if err := errors.Join(err, track.Update(updates, func(int, kernel.ConnState) {})); err != nil {
			return err
		}
		if all = unseen; len(all) == 0 {
			return nil
		}
	}
	return nil
}
