package load

import (
	"time"

	"github.com/venturi-net/venturi/result"
)

// udpBW is qperf's udp_bw: datagrams sent unpaced, one a system call, sent and
// received counted apart. Its default size is 1 byte, a test of packet rate;
// qperf's own default of 32 KiB measures fragmentation.
var udpBW = Load{
	Name:      "udp_bw",
	Summary:   "UDP datagrams, rate at the receiver, loss beside it (as qperf udp_bw)",
	Transport: "udp",
	Kind:      Stream,
	Metric:    result.Bandwidth,
	Size:      1,
	Slice:     50 * time.Millisecond,
	Head:      5 * time.Millisecond,
}
