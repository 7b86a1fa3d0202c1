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

// SetTimeouts gives each of the TCP connections the timeout of the state that it is in, in whole
// seconds; one whose state has none is left alone.
func (c *Conntrack) SetTimeouts(all []Connection, of map[TCPState]time.Duration) error {
	_, err := c.setAll(all, func(_ int, m message) (to Update, want bool) {
		to.Timeout = of[m.tcpState()]
		return to, to.Timeout > 0
	})
	return c.n.Wrap("set timeouts of connections", err)
}
