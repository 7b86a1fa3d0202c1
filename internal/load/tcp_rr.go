package load

import (
	"time"

	"github.com/venturi-net/venturi/result"
)

// tcpRR is netperf's TCP_RR: the same ping-pong as tcp_lat, reported as
// transactions per second (twice as few as qperf's msg_rate, which counts both
// directions).
var tcpRR = Load{
	Name:      "tcp_rr",
	Summary:   "TCP request/response, transactions per second (as netperf TCP_RR)",
	Transport: "tcp",
	Kind:      PingPong,
	Metric:    result.Transactions,
	Size:      1,
	Slice:     25 * time.Millisecond,
	Head:      2 * time.Millisecond,
}
