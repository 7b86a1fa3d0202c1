package load

import (
	"time"

	"github.com/venturi-net/venturi/result"
)

// udpRR is netperf's UDP_RR, but a lost request costs a timeout that is taken
// out of the rate, where netperf stalls to the end of the test.
var udpRR = Load{
	Name:      "udp_rr",
	Summary:   "UDP request/response, transactions per second (as netperf UDP_RR)",
	Transport: "udp",
	Kind:      PingPong,
	Metric:    result.Transactions,
	Size:      1,
	Slice:     25 * time.Millisecond,
	Head:      2 * time.Millisecond,
}
