// Package load offers traffic and times it: one file a load, and the four
// engines that they share, ping-pong, stream, connect and schedule.
//
// A load has an active end (the client: it decides when a slice starts and
// ends) and a passive end (the server: it echoes or counts). Both ends get the
// [Plan] of a whole series once; slices then start in-band, on the very
// sockets that carry the traffic, so nothing else is on the wire and no call
// is made while a slice runs.
package load

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/host"
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

// timed tells an engine that times requests from one that counts what arrives.
func (k Kind) timed() bool { return k != Stream }

// Plan is one series of one cell: everything that both ends need.
type Plan struct {
	Token uint64 // names the series on the wire; a stray datagram does not have it
	Nonce Nonce  // lets the client's flows in; the record does not have it
	Load  string
	Size  int // bytes of a message
	// Response is how many bytes the answer to a request has; 0: as many.
	Response int
	Flows    int
	// Threads is how many threads of each end the flows are dealt out to in turn; 0: as the
	// load does by itself. See [Load.CheckThreads].
	Threads int
	Batch   int // messages a system call, for loads that can; 0 or 1: one
	// Rate is what all flows of an arm together offer per second: requests of a load on a
	// schedule, datagrams, or bits of a TCP stream. 0: the load's default, which is no limit
	// for a stream.
	Rate     float64
	Slice    time.Duration
	Head     time.Duration
	Arms     []Arm
	Schedule [][]int // rounds of indexes into Arms
	// Congestion is the congestion control of all TCP sockets, so that arms do
	// not differ by that of their namespaces; empty: as each namespace has it.
	// Where a socket cannot have it, the namespace's stays: see TryCongestion.
	Congestion string
	// ClientCPU and ServerCPU pin the loops; -1: not pinned.
	ClientCPU, ServerCPU int
	// ClientCPUs and ServerCPUs are the cores that Threads are dealt out to in turn; none:
	// all are pinned as above.
	ClientCPUs, ServerCPUs []int
	Background             *Background // nil: nothing runs beside the load
}

// Arm is one path in a Plan.
type Arm struct {
	Name string
	// Ends are the pairs that the flows are dealt out to in turn, at least one.
	// With fewer flows than pairs the last pairs carry nothing.
	Ends []Pair
	// ClientNetns and ServerNetns are the namespaces that the arm's packets pass on
	// the client's and on the server's machine beside those of the ends, as paths
	// of files: where devices can drop them.
	ClientNetns, ServerNetns []string
	// ClientPins and ServerPins are the folders on both machines where the arm's fast
	// path keeps its tables; empty: it has none.
	ClientPins, ServerPins string
	ServerPort             int // first of Flows consecutive ports, one a flow, whatever its pair
	ClientPort             int // first of [Load.ClientPorts], at the client's ends
	// Rate is in place of the plan's on this arm, and BackgroundRate in place of its
	// background's; 0: they are the plan's.
	Rate, BackgroundRate float64
	// Dial is where the client of each flow reaches the server, if not at its own address
	// and port: behind a Service.
	Dial []netip.AddrPort
	// Spin makes the server busy for this long before each echo. It is how the
	// instrument is tested: a difference of known size.
	Spin time.Duration
}

// schedules tells whether an arm has any slice in the plan.
func (p Plan) schedules(arm int) bool {
	return slices.ContainsFunc(p.Schedule, func(round []int) bool { return slices.Contains(round, arm) })
}

// Pair is two ends of traffic.
type Pair struct {
	From, To host.Endpoint // the client's, the server's
}

// replySize is how many bytes the answer to a request has.
func (p *Plan) replySize() int { return cmp.Or(p.Response, p.Size) }

// room is how many bytes a buffer for any message has.
func (p *Plan) room() int { return max(p.Size, p.Response, frameSize) }

// messageRate is how many messages or requests each flow of an arm offers per second; 0: as
// many as go.
func (p *Plan) messageRate(l Load, arm int) float64 {
	return l.messageRate(cmp.Or(p.Arms[arm].Rate, p.Rate, l.Rate), p.Size, p.Flows)
}

// LongestSlice is how long a slice of the plan can take on a path that answers in time:
// head and timed part, and where nothing else waits for them, the last answers.
func (p Plan) LongestSlice() time.Duration {
	d := p.Head + p.Slice
	if l, err := Find(p.Load); err == nil && l.Kind == Scheduled {
		d += scheduleTimeout
	}
	if p.Background != nil {
		d += BackgroundLead
	}
	return d
}

// target is where the client of a flow reaches the server.
func (a Arm) target(flow int) netip.AddrPort {
	if flow < len(a.Dial) {
		return a.Dial[flow]
	}
	return netip.AddrPortFrom(a.pair(flow).To.Addr, uint16(a.ServerPort+flow))
}

// pair gives the ends of a flow.
func (a Arm) pair(flow int) Pair { return a.Ends[flow%len(a.Ends)] }

// check finds the plan's load, and what is wrong with the plan itself.
func (p Plan) check() (Load, error) {
	for _, a := range p.Arms {
		if len(a.Ends) == 0 {
			return Load{}, fmt.Errorf("arm %s has no ends", a.Name)
		}
		for _, p := range a.Ends {
			if p.From.Agent != a.Ends[0].From.Agent || p.To.Agent != a.Ends[0].To.Agent {
				return Load{}, fmt.Errorf("arm %s has ends in several virtual machines of one side", a.Name)
			}
		}
	}
	if b := p.Background; b != nil {
		l, err := Find(b.Load)
		if err == nil {
			err = l.CheckBackground()
		}
		if err != nil {
			return Load{}, err
		}
	}
	l, err := Find(p.Load)
	if err == nil {
		err = l.CheckThreads(p.Threads, p.Flows, max(p.Size, p.Response))
	}
	return l, err
}

// SliceObserver is called when a slice of an arm begins and ends, on the machine where it
// runs and outside the timed part. Meters sample there.
type SliceObserver interface {
	Begin(arm int)
	End(arm int)
}

// SliceResult is one slice as the active end saw it. Exactly one of Latency,
// Stream and Err is set. The counts of a slice in which too little arrived for
// a figure are there too: what it lost belongs to the arm.
type SliceResult struct {
	Arm, Round int
	Start      time.Time
	Elapsed    time.Duration
	Latency    *result.Latency
	Stream     *result.Stream
	Background *result.Stream // what the background carried, if there is one
	Err        error          // the arm could not be measured, and is left out from here
}
