package load

import (
	"time"

	"github.com/venturi-net/venturi/result"
)

// quic sends datagrams as servers of HTTP/3 do: many in one system call, which the kernel or the
// card cuts apart (UDP_SEGMENT), and takes them merged again (UDP_GRO). There is no encryption,
// no acknowledgement and no congestion control: it shows what a path does to such packets.
var quic = Load{
	Name:      "quic",
	Summary:   "UDP datagrams with segmentation offload, as HTTP/3 sends them, rate at the receiver",
	Transport: "udp",
	Kind:      Stream,
	Metric:    result.Bandwidth,
	Size:      1200,        // what every path of QUIC carries (RFC 9000)
	Least:     ControlSize, // a control frame must not be cut
	Slice:     50 * time.Millisecond,
	Head:      5 * time.Millisecond,
	Segments:  true,
}
