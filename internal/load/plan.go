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

// Schedules tells whether an arm has any slice in the plan.
func (p Plan) Schedules(arm int) bool {
	return slices.ContainsFunc(p.Schedule, func(round []int) bool { return slices.Contains(round, arm) })
}

// Subset is the plan with some of its arms, which are numbered anew.
func (p Plan) Subset(arms []int) Plan {
	all := p
	p.Arms, p.Schedule = nil, nil
	for _, arm := range arms {
		p.Arms = append(p.Arms, all.Arms[arm])
	}
	for _, round := range all.Schedule {
		var some []int
		for _, arm := range round {
			if at := slices.Index(arms, arm); at >= 0 {
				some = append(some, at)
			}
		}
		p.Schedule = append(p.Schedule, some)
	}
	return p
}

// Nonce is a secret of the two ends of a series. Who does not know it gets no answer.
type Nonce [32]byte

// Format is of [fmt.Formatter]: no text holds a nonce.
func (Nonce) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("...")) }

// Pair is two ends of traffic.
type Pair struct {
	From, To host.Endpoint // the client's, the server's
}

// ReplySize is how many bytes the answer to a request has.
func (p *Plan) ReplySize() int { return cmp.Or(p.Response, p.Size) }

// MessageRate is how many messages or requests each flow of an arm offers per second; 0: as
// many as go.
func (p *Plan) MessageRate(l Load, arm int) float64 {
	return l.messageRate(cmp.Or(p.Arms[arm].Rate, p.Rate, l.Rate), p.Size, p.Flows)
}

// LongestSlice is how long a slice of the plan can take on a path that answers in time:
// head and timed part, and where nothing else waits for them, the last answers.
func (p Plan) LongestSlice() time.Duration {
	d := p.Head + p.Slice
	if l, err := Find(p.Load); err == nil && l.Kind == Scheduled {
		d += ScheduleTimeout
	}
	if p.Background != nil {
		d += BackgroundLead
	}
	return d
}

// Target is where the client of a flow reaches the server.
func (a Arm) Target(flow int) netip.AddrPort {
	if flow < len(a.Dial) {
		return a.Dial[flow]
	}
	return netip.AddrPortFrom(a.Pair(flow).To.Addr, uint16(a.ServerPort+flow))
}

// Pair gives the ends of a flow.
func (a Arm) Pair(flow int) Pair { return a.Ends[flow%len(a.Ends)] }

// Check finds the plan's load, and what is wrong with the plan itself.
func (p Plan) Check() (Load, error) {
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
