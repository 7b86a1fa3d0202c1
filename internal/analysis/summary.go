// Package analysis turns a record into figures, ratios and verdicts: the one
// place that knows both what was recorded and what it means. Reports print its
// [Summary], and a running experiment asks it after every series whether it
// may stop.
package analysis

import (
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// Summary is everything that a report prints, in base units.
type Summary struct {
	Cells []Cell `json:"cells"` // in the order of the plan, those with data
	// Unmeasured are the others, with rows that hold no figures.
	Unmeasured []Cell `json:"-"`
	// Series is how many are complete enough to count, in every cell.
	Series int `json:"series"`
	// MostSeries is how many the cell has that has most: where a run goes on with
	// some cells only, they have more than others.
	MostSeries int `json:"-"`
	// Level is the confidence of each interval: that of the plan, or more when
	// the run could stop early.
	Level float64 `json:"level"`
	Looks int     `json:"looks"` // at which the run could stop; 1: only at its end
	// Emulated: the CPU of the machine is. Its paths are compared with each
	// other, and with nothing else.
	Emulated bool `json:"emulated,omitempty"`
	// Tests is how many comparisons Holm's correction covers.
	Tests int `json:"tests"`
	// Precise: every interval is narrow enough. Stop: and this is a pre-set
	// look, so the run may end.
	Precise bool `json:"precise"`
	Stop    bool `json:"stop"`
	// Worst is the widest half-width of any interval, relative; 0 when there
	// is none. It is what progress shows.
	Worst float64 `json:"worst_half_width"`
}

// Planned are the cells of the plan, those first that have been measured: what one run alone has measured is
// not compared, and is named, and a path that has failed in a load must not just disappear.
func (s *Summary) Planned() (all []*Cell) {
	for _, cells := range [][]Cell{s.Cells, s.Unmeasured} {
		for i := range cells {
			all = append(all, &cells[i])
		}
	}
	return all
}

// Cell is one block of the report: one load at one size.
type Cell struct {
	Cell     result.Cell `json:"cell"`
	Baseline string      `json:"baseline"` // name of the arm; see Options.Against
	Rows     []Row       `json:"rows"`     // baseline first, its copy and tools left out
	Copy     *Row        `json:"copy,omitempty"`
	// Floor is nil when the plan has no copy of the baseline, or it has no data.
	Floor *stats.Floor `json:"floor,omitempty"`
	// Lag1 is the autocorrelation of the baseline's slices.
	Lag1      float64     `json:"lag1"`
	Agreement []Agreement `json:"agreement,omitempty"`

	series int // that are complete enough, of the baseline
}

// Row is one arm in one cell.
type Row struct {
	Arm result.Arm `json:"arm"`
	// Value is in the unit of the cell's metric: the median over series of the
	// median over rounds. 0: no slice has a figure.
	Value float64 `json:"value"`
	// Ratio is the arm to the cell's baseline; nil for the baseline itself, and
	// without data.
	Ratio    *stats.Ratio     `json:"ratio,omitempty"`
	Adjusted float64          `json:"p_adjusted"` // p-value after Holm
	Judged   *stats.Judgement `json:"judged,omitempty"`
	Latency  *Latency         `json:"latency,omitempty"`
	Stream   *Stream          `json:"stream,omitempty"`
	CPU      *CPU             `json:"cpu,omitempty"`
	// Spread is nil where there is one flow.
	Spread *Spread `json:"flows,omitempty"`
	// Threads used CPU time during the slices, the busiest first.
	Threads []Thread `json:"threads,omitempty"`
	// Background is what the stream beside the load carried; nil: there was none.
	Background *BackgroundTraffic `json:"beside,omitempty"`
	// Offered is what became of the rate of a stream that has one.
	Offered *Offered `json:"offered,omitempty"`
	// Counters are sums over all series, from the meters other than cpu and that of the fast path.
	Counters map[string]int64 `json:"counters,omitempty"`
	// MachineCounters are those of each machine, when machines do not share cores.
	MachineCounters map[string]map[string]int64 `json:"machine_counters,omitempty"`
	// FastPath is nil for an arm that has none.
	FastPath *FastPath `json:"fast_path,omitempty"`
	// Fragments is the packets that one UDP message takes; 1: not fragmented.
	Fragments int    `json:"fragments"`
	Slices    int    `json:"slices"`
	NoFigure  int    `json:"no_figure,omitempty"` // slices without a figure
	Failed    string `json:"failed,omitempty"`    // why the first of them failed
	// Unreadable is how many histograms could not be decoded.
	Unreadable int `json:"unreadable,omitempty"`
	// Emulated says whose CPU was, if one: [EmulatedMachine] or [EmulatedPath].
	Emulated string `json:"emulated,omitempty"`
}

// What of a row was on an emulated CPU.
const (
	EmulatedMachine = "machine" // all of the record was: its paths may be compared with each other
	EmulatedPath    = "path"    // a machine that the path leads through was: it is compared with nothing
)

// Foreign tells that the row is not compared, because the CPU that one of the
// two was measured on is emulated, and the other's is not. Its ratio says what
// emulation costs.
func (r *Row) Foreign() bool { return r.Judged != nil && r.Judged.Reason == stats.Emulated }

// Latency sums the slices of a ping-pong load.
type Latency struct {
	MeanRTT     float64            `json:"mean_rtt"` // ns, over all replies
	Requests    int64              `json:"requests"`
	Replies     int64              `json:"replies"`
	Lost        int64              `json:"lost"`
	Late        int64              `json:"late"`
	Missed      int64              `json:"missed,omitempty"`      // on a schedule: sent only when the next was due
	Rate        float64            `json:"rate"`                  // replies per second, all flows
	Percentiles []stats.Percentile `json:"percentiles,omitempty"` // of the RTT, ns
	// LatenessP99 is the 99th percentile of how late requests on a schedule were sent, ns; 0:
	// they were on none.
	LatenessP99 float64 `json:"lateness_p99,omitempty"`

	rtts []stats.Histogram // a slice each; none with Options.Live
}

// Histogram holds the RTT of every reply, ns; it is empty with Options.Live.
func (l *Latency) Histogram() stats.Histogram { return stats.Merge(l.rtts) }

// Stream sums the slices of a one-way load.
type Stream struct {
	SentMessages int64 `json:"sent_messages"`
	RecvMessages int64 `json:"recv_messages"`
	SentBytes    int64 `json:"sent_bytes"`
	RecvBytes    int64 `json:"recv_bytes"`
	// Lost messages; only datagrams can be lost.
	Lost        int64 `json:"lost"`
	Retransmits int64 `json:"retransmits"`
	// RetransmitRate is segments sent again per second of sending; TCP only.
	RetransmitRate float64 `json:"retransmit_rate,omitempty"`
	// Rates are medians as Value is. SentRate and SentBits are the sender's,
	// the others the receiver's.
	SentRate float64 `json:"sent_rate"` // messages/s
	SentBits float64 `json:"sent_bits"` // bit/s
	RecvRate float64 `json:"recv_rate"` // messages/s
	RecvBits float64 `json:"recv_bits"` // bit/s
	// PacketRate is packets/s: datagrams with their fragments at the receiver;
	// TCP segments at the sender, before segmentation offload.
	PacketRate float64 `json:"packet_rate"`
}

// LossShare is the lost part of what was sent, 0 to 1.
func (s *Stream) LossShare() float64 {
	if s.SentMessages <= 0 {
		return 0
	}
	return float64(s.Lost) / float64(s.SentMessages)
}

// BackgroundTraffic sums the slices of a stream beside a load.
type BackgroundTraffic struct {
	// Rate is what arrived, median over series as Value is: bit/s of TCP, messages/s of
	// datagrams.
	Rate float64 `json:"rate"`
	// Offered is what became of the rate that was asked for; nil: none was.
	Offered *Offered `json:"offered,omitempty"`
	// LossShare is the part of the datagrams sent that did not arrive, 0 to 1.
	LossShare float64 `json:"loss_share"`
}

// LatenessKept is up to what lateness at the 99th percentile a schedule counts as kept, ns.
const LatenessKept = 20_000

// ScheduleKept tells whether requests went out when they were due. Where they did not, the
// latency holds that.
func (l *Latency) ScheduleKept() bool { return l.LatenessP99 <= LatenessKept }

// What a CPU figure is per.
const (
	PerPacket     = "packet"     // ping-pong, and datagrams below 1 KiB
	PerMessage    = "message"    // TCP streams below 1 KiB, whose packets are merged messages
	PerConnection = "connection" // a connection for each request
	PerGB         = "GB"         // streams from 1 KiB on: 1e9 bytes received
)

// CPU is what the traffic cost. In a lab both ends are in it.
type CPU struct {
	Unit string  `json:"per"`
	Cost float64 `json:"cost"` // ns of busy time per Per: the median over series
	// Cores is how many cores were busy on average.
	Cores float64 `json:"cores"`
	// BySeries is Cost of each series, in order.
	BySeries []float64 `json:"-"`
	// Classes splits Cost (user, system, softirq, ...), ByCore the busy share
	// of each core (0 to 1), ByMachine Cost when machines do not share cores;
	// the cores are then named with their machine ("a/cpu0").
	Classes    map[string]float64 `json:"classes,omitempty"`
	ByCore     map[string]float64 `json:"by_core,omitempty"`
	ByMachine  map[string]float64 `json:"by_machine,omitempty"`
	Steal      float64            `json:"steal"` // share of the time that the hypervisor took; not in Cost
	Ratio      *stats.Ratio       `json:"ratio,omitempty"`
	Resolution string             `json:"resolution,omitempty"`
	// MachineClasses are Classes of each machine, and MachineSteal is Steal on each, when machines
	// do not share cores.
	MachineClasses map[string]map[string]float64 `json:"machine_classes,omitempty"`
	MachineSteal   map[string]float64            `json:"machine_steal,omitempty"`
}

// Thread is what a thread used of a core.
type Thread struct {
	// Name is its own, behind that of its process where they differ: ksoftirqd/0,
	// ovs-vswitchd/handler1.
	Name    string  `json:"name"`
	Machine string  `json:"machine,omitempty"` // where machines do not share cores
	Share   float64 `json:"share"`             // of the time of the slices, 0 to 1
	// Load: it is an end of the load, or of the stream beside it.
	Load bool `json:"load,omitempty"`
}

// FullThread is the share from which a thread counts as full: its time is booked at ticks, and
// the ends of a slice are in it.
const FullThread = 0.9

// FullCore is the busy share from which a core counts as full. A core that carries all packets is
// idle for some percent where it waits for the next slice, or the hypervisor runs others: 97 % were
// measured of one that lost packets.
const FullCore = 0.95

// Full tells whether the thread had no time left.
func (t *Thread) Full() bool { return t.Share >= FullThread }

// Agreement compares our figure with that of another tool on the same path.
type Agreement struct {
	Tool     string  `json:"tool"`
	Arm      string  `json:"arm"`
	Venturi  float64 `json:"ours"`   // unit of the metric
	External float64 `json:"theirs"` // unit of the metric
	// Ratio is ours to theirs over pairs of slices from the same round.
	Ratio stats.Ratio `json:"ratio"`
	// CPU is the busy time per unit of work, ours to theirs; nil without meters.
	CPU *stats.Ratio `json:"cpu,omitempty"`
}
