package load

import (
	"time"

	"github.com/venturi-net/venturi/result"
)

// ping sends ICMP echo requests on a schedule. The other machine's kernel answers, and the
// client's says when an answer came in, as for iputils' ping: no program's wake-up is in
// the figure. Control frames go over a UDP socket beside it.
var ping = Load{
	Name:      "ping",
	Summary:   "ICMP echo on a schedule, round trip from when each was due (as ping)",
	Transport: "icmp",
	Kind:      Scheduled,
	Metric:    result.RoundTrip,
	Size:      56,
	Least:     echoStamp,
	Rate:      1000,
	Slice:     100 * time.Millisecond,
	Head:      2 * time.Millisecond,
}
