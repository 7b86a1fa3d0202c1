package load

import (
	"time"

	"github.com/venturi-net/venturi/result"
)

// udpLat is qperf's udp_lat, made loss-proof: requests are numbered and time
// out, so a lost one is counted beside the figure and not averaged into it.
var udpLat = Load{
	Name:      "udp_lat",
	Summary:   "UDP ping-pong, half the round trip, loss counted apart (as qperf udp_lat)",
	Transport: "udp",
	Kind:      PingPong,
	Metric:    result.OneWay,
	Size:      1,
	Slice:     25 * time.Millisecond,
	Head:      2 * time.Millisecond,
}
