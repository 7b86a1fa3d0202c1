package load

import (
	"time"

	"github.com/venturi-net/venturi/result"
)

// tcpBW is qperf's tcp_bw: messages written as fast as the connection takes
// them, the rate read at the receiver. The head is long enough for the window
// to open again after the pause between two slices of an arm.
var tcpBW = Load{
	Name:      "tcp_bw",
	Summary:   "TCP stream, rate at the receiver (as qperf tcp_bw)",
	Transport: "tcp",
	Kind:      Stream,
	Metric:    result.Bandwidth,
	Size:      64 << 10,
	Slice:     50 * time.Millisecond,
	Head:      5 * time.Millisecond,
}
