package load

import (
	"time"

	"github.com/venturi-net/venturi/result"
)

// probe sends small datagrams on a schedule to a server that sends them back. Both ends
// are programs: the time that each takes to be woken is in the figure, as it is for udp_lat.
var probe = Load{
	Name:      "probe",
	Summary:   "UDP requests on a schedule, round trip from when each was due",
	Transport: "udp",
	Kind:      Scheduled,
	Metric:    result.RoundTrip,
	Size:      64,
	Least:     NumberSize,
	Rate:      1000,
	Slice:     100 * time.Millisecond,
	Head:      2 * time.Millisecond,
}
