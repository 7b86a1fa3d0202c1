package load

import (
	"time"

	"github.com/venturi-net/venturi/result"
)

// tcpLat is qperf's tcp_lat: one message there, the same size back, RTT/2. It
// sets TCP_NODELAY, which qperf does not; with one small message outstanding
// Nagle's rule never holds one back, so the figures agree.
var tcpLat = Load{
	Name:      "tcp_lat",
	Summary:   "TCP ping-pong, half the round trip (as qperf tcp_lat)",
	Transport: "tcp",
	Kind:      PingPong,
	Metric:    result.OneWay,
	Size:      1,
	Slice:     25 * time.Millisecond,
	Head:      2 * time.Millisecond,
}
