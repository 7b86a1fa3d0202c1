// Package result is the record: what a run leaves behind, and all that a
// report is made from.
//
// A record is a stream of JSON objects, one a line. Each line has exactly one
// key, which names its kind: header (always first), plan, facts, slice, meter,
// warning, end (always last). The header carries the version of the format.
// Unknown keys of a known version are an error, a newer version is refused,
// and a stream without its end line is truncated.
//
// Units inside a record are base units: nanoseconds, bytes, bits per second,
// counts. Pretty units are the reports' business.
package result

import (
	"iter"
	"strings"
	"time"
)

// Format and Version identify a record. Version grows when a reader of the old
// version would misread the new one.
const (
	Format  = "venturi-record"
	Version = 1
)

// Line is one line of the stream: exactly one field is set.
type Line struct {
	Header  *Header  `json:"header,omitempty"`
	Plan    *Plan    `json:"plan,omitempty"`
	Facts   *Facts   `json:"facts,omitempty"`
	Slice   *Slice   `json:"slice,omitempty"`
	Meter   *Meter   `json:"meter,omitempty"`
	Warning *Warning `json:"warning,omitempty"`
	End     *End     `json:"end,omitempty"`
}

// Header opens a record.
type Header struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Venturi string    `json:"venturi"` // version of the program that wrote it
	Started time.Time `json:"started"`
	Command []string  `json:"command,omitempty"`
}

// Plan says what was to be measured, before it was.
type Plan struct {
	Arms       []Arm   `json:"arms"`
	Cells      []Cell  `json:"cells"`
	Series     int     `json:"series"`          // how many at most
	Rounds     int     `json:"rounds"`          // per series
	Looks      []int   `json:"looks,omitempty"` // series counts at which it may stop early, ascending
	Seed       uint64  `json:"seed"`
	Margin     float64 `json:"margin"`              // 0.03: a difference within 3 % is "same"
	Precision  float64 `json:"precision,omitempty"` // stop when every half-width is below; 0: never early
	Confidence float64 `json:"confidence"`          // 0.95
	// UntilDecided: the run looks after every series, and goes on with the cells
	// that have a comparison without a verdict. Its intervals hold at every look.
	UntilDecided bool          `json:"until_decided,omitempty"`
	Budget       time.Duration `json:"budget,omitempty"`
	Wire         string        `json:"wire,omitempty"` // as given to --wire, defaults filled in
	Services     int           `json:"services,omitempty"`
	// SharedCores: the two machines are namespaces of one machine, so a CPU
	// figure holds both ends and is good only for comparing arms.
	SharedCores bool `json:"shared_cores,omitempty"`
	// Cores are those that each machine of a lab was confined to, by its name. Its CPU
	// figures are of these alone.
	Cores     map[string][]int `json:"cores,omitempty"`
	ClientCPU int              `json:"client_cpu"` // -1: not pinned
	ServerCPU int              `json:"server_cpu"`
}

// OneHost tells that both machines were namespaces of one host.
func (p *Plan) OneHost() bool { return p.SharedCores || len(p.Cores) > 0 }

// Roles of an arm.
const (
	RoleBaseline = "baseline" // the arm that the others are compared with; exactly one
	RoleCopy     = "copy"     // the baseline once more: its interval is the noise floor
)

// Arm is one path in one state of tuning.
type Arm struct {
	Name     string `json:"name"`              // unique in the record
	Path     string `json:"path"`              // driver, or the tool's name for a tool arm
	Options  string `json:"options,omitempty"` // of the path, those that are not its defaults
	Role     string `json:"role,omitempty"`
	MTU      int    `json:"mtu"`      // of the endpoints, bytes
	Overhead int    `json:"overhead"` // bytes that the path adds to each packet on the wire
	From     string `json:"from"`     // address of the client end
	To       string `json:"to"`       // address of the server end
	// FromDevice and ToDevice have these addresses, on real machines.
	FromDevice string `json:"from_device,omitempty"`
	ToDevice   string `json:"to_device,omitempty"`
	// FromMachine and ToMachine are those of the ends, where they are not the first two of
	// the record.
	FromMachine string `json:"from_machine,omitempty"`
	ToMachine   string `json:"to_machine,omitempty"`
	// Pairs of ends that flows are dealt out to, such as one a tunnel; 0: one.
	// From and To are the first's.
	Pairs int `json:"pairs,omitempty"`
	// Emulated: it leads through a virtual machine of its own whose CPU is
	// emulated, while the baseline's is that of the machine. Then it can be
	// compared with no other arm.
	Emulated bool `json:"emulated,omitempty"`
	// Versions of the programs that carry it, by name.
	Versions map[string]string `json:"versions,omitempty"`
}

// Metric names what a cell's figure is.
type Metric string

// The metrics, with the unit of [Slice.Value].
const (
	OneWay       Metric = "one-way"      // ns, median RTT/2; lower is better
	RoundTrip    Metric = "round-trip"   // ns, median RTT from when each request was due; lower is better
	Transactions Metric = "transactions" // per second; higher is better
	Bandwidth    Metric = "bandwidth"    // bit/s at the receiver; higher is better
	Messages     Metric = "messages"     // messages/s at the receiver; higher is better
	Connections  Metric = "connections"  // per second, each opened, used for one request and closed; higher is better
)

// LeastBytesSize is the size of a message, bytes, from which a stream is about bytes, not
// packets: the kernel merges smaller ones on a TCP stream.
const LeastBytesSize = 1024

// The metrics of a stream with a rate: busy ns of all cores; lower is better. No slice has
// them: the meters sum CPU time over a series.
const (
	CPUPerPacket  Metric = "cpu-per-packet"
	CPUPerMessage Metric = "cpu-per-message"
	CPUPerGB      Metric = "cpu-per-gb" // 1e9 bytes received
)

// IsCPU tells whether a metric is CPU time.
func (m Metric) IsCPU() bool { return m == CPUPerPacket || m == CPUPerMessage || m == CPUPerGB }

// LowerIsBetter tells which way a metric points.
func (m Metric) LowerIsBetter() bool { return m == OneWay || m == RoundTrip || m.IsCPU() }

// Cell is one load at one size with one number of flows: one block of rows.
type Cell struct {
	Name      string `json:"name"`      // unique: "tcp_lat/1", "udp_bw/1/batch=32", "tcp_bw/65536/flows=4"
	Load      string `json:"load"`      // or TOOL:LOAD, see [Cell.Tool]
	Transport string `json:"transport"` // tcp, udp or icmp
	Size      int    `json:"size"`      // bytes of a message
	// Response is how many bytes the answer to a request has; 0: as many as the request.
	Response int `json:"response,omitempty"`
	Flows    int `json:"flows"`
	// Threads is how many threads of each end the flows were dealt out to in turn; 0: as
	// the load does by itself.
	Threads int `json:"threads,omitempty"`
	Batch   int `json:"batch,omitempty"` // messages a system call; 0: one
	// Rate is what was to be offered per second, by all flows together: requests of a load
	// on a schedule, datagrams, or bits of a TCP stream. 0: as fast as it goes.
	Rate       float64         `json:"rate,omitempty"`
	Background *BackgroundLoad `json:"beside,omitempty"` // what ran beside the load; nil: nothing
	// Curve names the curve of latency against load that the cell is a point of; empty:
	// none. The share of its background, 0 where it has none, is the point's abscissa.
	Curve string `json:"curve,omitempty"`
	// Meaning is what the figure of a real tool is, in the tool's own terms.
	Meaning string        `json:"meaning,omitempty"`
	Metric  Metric        `json:"metric"`
	Slice   time.Duration `json:"slice"` // timed part of a slice
	Head    time.Duration `json:"head"`  // run and thrown away before it
}

// Tool names the real program that ran the cell's load, as iperf3 of "iperf3:tcp_bw", once
// for each arm in a series; empty: Venturi itself ran it.
func (c *Cell) Tool() string {
	tool, _, ok := strings.Cut(c.Load, ":")
	if !ok {
		return ""
	}
	return tool
}

// ToolLoad is the load that the cell's tool ran, in Venturi's name for it.
func (c *Cell) ToolLoad() string {
	_, load, _ := strings.Cut(c.Load, ":")
	return load
}

// BackgroundLoad is a stream that each arm carried beside its load, on flows of its own.
type BackgroundLoad struct {
	Load  string  `json:"load"`
	Size  int     `json:"size"` // bytes of a message
	Flows int     `json:"flows"`
	Rate  float64 `json:"rate,omitempty"` // see [Cell.Rate]; 0 without a Share: as fast as it went
	// Share, above 0, is the part of each arm's own maximum that it was to carry. The
	// maximum is what arrived in the slices of the cell Maximum in the same series, before.
	Share   float64 `json:"share,omitempty"`
	Maximum string  `json:"maximum,omitempty"`
	// Cores says whether it shared the load's cores: "same" or "other".
	Cores string `json:"cores"`
}

// InBits tells whether the stream is about bytes, and not about messages.
func (b *BackgroundLoad) InBits() bool { return b.Load == "tcp_bw" || b.Size >= LeastBytesSize }

// Slice is what one arm did in one slice.
type Slice struct {
	Cell   string `json:"cell"`
	Arm    string `json:"arm"`
	Series int    `json:"series"` // from 0
	Round  int    `json:"round"`  // from 0
	Start  int64  `json:"start"`  // ns since the start of the record, client's clock
	// Elapsed is the timed part at the client, ns.
	Elapsed int64 `json:"elapsed"`

	Latency    *Latency `json:"latency,omitempty"` // loads of requests: ping-pong, connections
	Stream     *Stream  `json:"stream,omitempty"`  // one-way loads
	Background *Stream  `json:"beside,omitempty"`  // what the stream beside the load carried
	Failed     string   `json:"failed,omitempty"`  // why there is no figure

	Merged int `json:"-"` // slices of the file that it stands for; 0: itself
	Blank  int `json:"-"` // of these, without a figure
}

// Counts tells how many slices of the file the slice stands for, more than one in a long
// record, and how many of these have no figure. A figure of CPU time may be missing where
// nothing failed.
func (s *Slice) Counts(m Metric) (all, blank int) {
	if s.Merged > 0 {
		return s.Merged, s.Blank
	}
	if _, ok := s.Value(m); !ok && (s.Failed != "" || !m.IsCPU()) {
		blank = 1
	}
	return 1, blank
}

// Latency is a slice of a load of requests: F outstanding, one a flow. Where each has
// a connection of its own, to open and close that is part of its time. Requests on a
// schedule are timed from when they were due, and any number is outstanding.
type Latency struct {
	Requests int64 `json:"requests"`
	Replies  int64 `json:"replies"` // in time; only these are in RTTSum and RTT
	// RTTMedian is that of the slice; 0 from a tool that tells only the mean.
	RTTMedian int64 `json:"rtt_median,omitempty"` // ns
	Lost      int64 `json:"lost,omitempty"`       // no reply within the timeout
	Late      int64 `json:"late,omitempty"`       // replies that came after it (also counted in Lost)
	RTTSum    int64 `json:"rtt_sum"`              // ns, over Replies
	// HeadReplies came in the head: no figure counts them, but the meters'
	// time covers them.
	HeadReplies int64 `json:"head_replies,omitempty"`
	Timeout     int64 `json:"timeout,omitempty"` // ns, of a request
	// Of requests on a schedule: Missed went out only when the next one was due, and
	// Lateness is by how much each went out after it was due, as RTT is.
	Missed   int64  `json:"missed,omitempty"`
	Lateness []byte `json:"lateness,omitempty"`
	// PerFlow is Replies of each flow, in their order, where there are several.
	PerFlow []int64 `json:"per_flow,omitempty"`
	RTT     []byte  `json:"rtt"` // HDR histogram of the RTT in ns, V2 compressed encoding; see DecodeRTT
}

// Stream is a slice of a one-way load.
type Stream struct {
	// AskedMessages were due in the slice, at the rate that was asked for.
	AskedMessages int64 `json:"asked_messages,omitempty"`
	SentMessages  int64 `json:"sent_messages"` // whole slice, head included
	SentBytes     int64 `json:"sent_bytes"`
	SendNs        int64 `json:"send_ns"`
	RecvMessages  int64 `json:"recv_messages"` // whole slice, head included: Sent-Recv is the loss
	RecvBytes     int64 `json:"recv_bytes"`
	// RateBytes arrived in RateNs by the receiver's clock, head cut off: the figure
	// is their quotient. RateMessages is how many messages that is, rounded down.
	RateMessages int64 `json:"rate_messages"`
	RateBytes    int64 `json:"rate_bytes"`
	RateNs       int64 `json:"rate_ns"`
	Packets      int64 `json:"packets,omitempty"`     // TCP: data segments that the sender made, before segmentation offload, whole slice
	Retransmits  int64 `json:"retransmits,omitempty"` // TCP, whole slice
	// PerFlow is RateBytes of each flow, in their order, where there are several.
	PerFlow []int64 `json:"per_flow,omitempty"`
}

// Meter is what a meter saw beside the slices of one arm in one series.
type Meter struct {
	Cell    string `json:"cell"`
	Arm     string `json:"arm"`
	Series  int    `json:"series"`
	Machine string `json:"machine"`
	Name    string `json:"name"`    // cpu, softnet, tcp, udp, links, accel, threads
	WallNs  int64  `json:"wall_ns"` // time covered: the slices of this arm, heads included
	// Values are sums over the slices; keys as the meter documents them, such
	// as "cpu0/busy" (ns) or "softnet/squeezed" (count). "accel/flows" is the most
	// that there were at the end of a slice. "threads" has the CPU time of each thread
	// that used some, ns, by name and number: "ksoftirqd/0#13", "ovs-vswitchd/handler1#812".
	Values     map[string]int64 `json:"values"`
	Resolution string           `json:"resolution"` // "1 ns busy; classes sampled every 4 ms"
}

// Cores gives what the meter "cpu" has of a class, such as "busy", for each core: "cpu0".
func (m *Meter) Cores(class string) iter.Seq2[string, int64] {
	return func(yield func(core string, ns int64) bool) {
		for key, ns := range m.Values {
			core, of, ok := strings.Cut(key, "/")
			isCore := ok && len(core) > len("cpu") && strings.HasPrefix(core, "cpu")
			if isCore && of == class && !yield(core, ns) {
				return
			}
		}
	}
}

// Warning is something a reader of the report must know.
type Warning struct {
	Code string `json:"code"` // stable: "shared-cores", "one-core", "arm-failed", ...
	Text string `json:"text"`
	Arm  string `json:"arm,omitempty"`
	Cell string `json:"cell,omitempty"`
}

// Why a run ended.
const (
	Complete    = "complete"
	Precise     = "precise"     // stopped at a look: every interval was narrow enough
	Decided     = "decided"     // every comparison had a verdict
	Interrupted = "interrupted" // Ctrl-C
	OutOfBudget = "budget"
	Failed      = "failed"
)

// End closes a record.
type End struct {
	Reason string        `json:"reason"`
	Error  string        `json:"error,omitempty"`
	Series int           `json:"series"` // that were completed
	Slices int           `json:"slices"` // slice lines in the record
	Took   time.Duration `json:"took"`
}
