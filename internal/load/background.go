package load

import (
	"time"

	"github.com/venturi-net/venturi/internal/verr"
)

// A background is a stream that an arm carries beside its load, on flows and threads of its
// own. It starts before each slice of the load, ends after it, and goes through the same
// path at the same time.

// Background is the stream beside a load.
type Background struct {
	Load  string
	Size  int // bytes of a message
	Flows int
	Rate  float64 // see [Plan.Rate]; 0: as fast as it goes
	// ClientCPU and ServerCPU pin its loops; -1: not pinned.
	ClientCPU, ServerCPU int
}

// BackgroundLead is how long a background runs before a slice begins: a TCP stream has
// reached its rate by then.
const BackgroundLead = 20 * time.Millisecond

// CheckBackground tells whether the load can run beside another.
func (l Load) CheckBackground() error {
	if l.Kind == Stream {
		return nil
	}
	return verr.New(verr.Usage, "cannot run "+l.Name+" beside a load", "only a stream goes on whatever comes back",
		"use tcp_bw or udp_bw, with a rate if you like: --beside udp_bw@100k")
}

// CheckBeside tells whether a load can have another beside it.
func (l Load) CheckBeside() error {
	if l.Kind == PingPong || l.Kind == Scheduled {
		return nil
	}
	return verr.New(verr.Usage, "cannot run "+l.Name+" beside another load", "--beside is for latency, and "+l.Name+" has none",
		"use it with probe, ping, or a ping-pong such as udp_lat or tcp_rr")
}
