package kernel

import "time"

// TCPState is a state of a TCP connection in conntrack.
type TCPState uint8

// States of TCP connections: enum tcp_conntrack.
const (
	TCPSynSent TCPState = iota + 1
	TCPSynRecv
	TCPEstablished
	TCPFinWait
	TCPCloseWait
	TCPLastAck
	TCPTimeWait
	TCPClose
	TCPSynSent2
)

// closingSysctls are the sysctls of timeouts of TCP connections that are not established. Conntrack gives
// both kinds of TCPSynSent the same at first, and only one has a sysctl.
var closingSysctls = map[TCPState]string{
	TCPSynSent: "tcp_timeout_syn_sent", TCPSynSent2: "tcp_timeout_syn_sent", TCPSynRecv: "tcp_timeout_syn_recv",
	TCPFinWait: "tcp_timeout_fin_wait", TCPCloseWait: "tcp_timeout_close_wait", TCPLastAck: "tcp_timeout_last_ack",
	TCPTimeWait: "tcp_timeout_time_wait", TCPClose: "tcp_timeout_close",
}

// RestoreTimeouts gives TCP connections that are closing the timeout of their state again, as it is in the calling
// thread's network namespace. One that is not closing is left alone.
func (c *Conntrack) RestoreTimeouts(all []Connection) error {
	if len(all) == 0 {
		return nil
	}
	of := map[TCPState]time.Duration{}
	for state, name := range closingSysctls {
		seconds, _, err := readTimeout(name)
		if err != nil {
			return err
		}
		of[state] = time.Duration(seconds) * time.Second
	}
	_, err := c.setAll(all, func(_ int, m message) (to Update, want bool) {
		to.Timeout = of[m.tcpState()]
		return to, to.Timeout > 0
	})
	return c.n.Wrap("set timeouts of connections", err)
}
