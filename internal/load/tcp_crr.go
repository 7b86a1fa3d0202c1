package load

import (
	"time"

	"github.com/venturi-net/venturi/result"
)

// tcpCRR is netperf's TCP_CRR: connect, one request, one response, and the server
// closes first, as there. netperf waits for a segment that was lost until TCP has
// sent it again, a second for the first one of a connection; here such a
// connection is given up, counted, and taken out of the rate.
var tcpCRR = Load{
	Name:      "tcp_crr",
	Summary:   "TCP connect, request/response, close: connections per second (as netperf TCP_CRR)",
	Transport: "tcp",
	Kind:      Connect,
	Metric:    result.Connections,
	Size:      1,
	Slice:     50 * time.Millisecond,
	Head:      5 * time.Millisecond,
}
