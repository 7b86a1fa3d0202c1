// Package load says what traffic can be offered: one file a load, a table of all, and what may
// be asked of each. A [Plan] is one series of a load over the arms of a comparison, and a
// [SliceResult] what one slice of it gave. Package engine runs plans.
package load

import (
	"time"

	"github.com/venturi-net/venturi/result"
)

// Load is one kind of traffic: a line of [Table].
type Load struct {
	Name      string
	Summary   string // one line for --help
	Transport string // tcp, udp or icmp
	Kind      Kind
	Metric    result.Metric
	Size      int           // default message size, bytes
	Least     int           // smallest message size, bytes; 0: 1
	Rate      float64       // default rate, requests per second, of a load on a schedule
	Slice     time.Duration // default length of a slice
	Head      time.Duration // run and thrown away before each slice
	Segments  bool          // datagrams are sent and taken with segmentation offload
}

// Kind is the engine that runs a load.
type Kind int

// The engines.
const (
	PingPong  Kind = iota // one request outstanding per flow, same size both ways
	Stream                // as fast as it goes, client to server
	Connect               // a connection for each request, one at a time per flow
	Scheduled             // requests on a schedule, however many are outstanding
)

// Timed tells an engine that times requests from one that counts what arrives.
func (k Kind) Timed() bool { return k != Stream }

const (
	// callPorts is how many connections of all flows of an arm go by until a port
	// is used again, leastCallPorts of any flow.
	callPorts      = 512
	leastCallPorts = 32
)

// ClientPorts is how many consecutive ports an arm with some flows has at its
// client's ends.
func (l Load) ClientPorts(flows int) int {
	if l.Kind != Connect {
		return flows
	}
	return max(leastCallPorts, callPorts/flows)
}
