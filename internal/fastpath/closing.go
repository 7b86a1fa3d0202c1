package fastpath

import (
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
)

// closingSysctls are the sysctls of timeouts of TCP connections that are not established. Conntrack gives
// both kinds of TCPSynSent the same at first, and only one has a sysctl.
var closingSysctls = map[kernel.TCPState]string{
	kernel.TCPSynSent: "tcp_timeout_syn_sent", kernel.TCPSynSent2: "tcp_timeout_syn_sent", kernel.TCPSynRecv: "tcp_timeout_syn_recv",
	kernel.TCPFinWait: "tcp_timeout_fin_wait", kernel.TCPCloseWait: "tcp_timeout_close_wait", kernel.TCPLastAck: "tcp_timeout_last_ack",
	kernel.TCPTimeWait: "tcp_timeout_time_wait", kernel.TCPClose: "tcp_timeout_close",
}

// closeConns gives connections that are closing the timeout of their state again, in the calling thread's
// network namespace.
func closeConns(all []kernel.Connection, track *kernel.Conntrack) error {
	if len(all) == 0 {
		return nil
	}
	timeouts := map[kernel.TCPState]time.Duration{}
	for state, name := range closingSysctls {
		seconds, _, err := readTimeout(name)
		if err != nil {
			return err
		}
		timeouts[state] = time.Duration(seconds) * time.Second
	}
	return track.SetTimeouts(all, timeouts)
}
