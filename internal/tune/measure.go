package tune

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// Gauge measures a path as it is now, on fresh sockets.
type Gauge interface {
	// Measure measures every load once. A load that does not get through has no
	// figures, and a warning says why. Error: nothing can be measured any more.
	Measure(ctx context.Context) (*result.Record, error)
}

// The loads that a gauge must measure: each figure is read from one of them.
const (
	latencyLoad = "tcp_lat"
	streamLoad  = "tcp_bw"
	packetLoad  = "udp_bw"
)

// ProveLoads lists them.
func ProveLoads() []string { return []string{latencyLoad, streamLoad, packetLoad} }

// figures are what is measured of a state, in the order of its metrics.
var figures = []struct {
	name          string
	lowerIsBetter bool
	margin        float64 // by which it may become worse, as a share
	of            func(*result.Record) float64
}{
	{"latency", true, 0.03, medianLatency},
	{p99, true, 0.25, tail(0.99)},
	{p999, true, 0.25, tail(0.999)},
	{"throughput", false, 0.03, medianRate(streamLoad)},
	{"packets", false, 0.03, medianRate(packetLoad)},
	{"cpu", true, 0.10, costPerByte},
}

// The tail of the round trips that is watched: p99.9 where a measurement has so many
// that ten are longer, else p99, of which there are always enough. One of both is
// measured in a proof, for figures of two kinds cannot be compared.
const (
	p99        = "p99"
	p999       = "p99.9"
	minReplies = 10_000 // round trips
)

// withTail takes that tail out of metrics for which the others of a record like this
// one would do.
func withTail(all []search.Metric, rec *result.Record) []search.Metric {
	replies := int64(0)
	for _, s := range rec.Slices {
		if s.Latency != nil && len(s.Latency.RTT) > 0 {
			replies += s.Latency.Replies
		}
	}
	other := p999
	if replies >= minReplies {
		other = p99
	}
	return slices.DeleteFunc(slices.Clone(all), func(m search.Metric) bool { return m.Name == other })
}

// relaxedMargin is by how much a profile lets that become worse which it is not there for.
const relaxedMargin = 0.25

// Metrics gives what is measured, and what decides for a profile: all that it is
// meant to make better is a goal, of what is not the common figures are guarded. The
// balanced profile gives nothing for anything; the others do, as their titles say.
func Metrics(profile string) []search.Metric {
	roles := map[string]search.Role{"latency": search.Goal, "throughput": search.Goal, "packets": search.Goal, "cpu": search.Goal, p99: search.Watched, p999: search.Watched}
	var gives []string
	switch profile {
	case "latency":
		roles["throughput"], roles["packets"], roles["cpu"] = search.Guard, search.Guard, search.Reported
		gives = []string{"throughput", "packets"}
	case "throughput":
		roles["latency"], roles["cpu"] = search.Guard, search.Reported
		gives = []string{"latency", "packets"}
	}
	var all []search.Metric
	for _, f := range figures {
		m := search.Metric{Name: f.name, LowerIsBetter: f.lowerIsBetter, Role: roles[f.name], Margin: f.margin}
		if slices.Contains(gives, f.name) {
			m.Margin = relaxedMargin
		}
		all = append(all, m)
	}
	return all
}

// troubles are what else must not grow.
var troubles = []struct {
	name string
	of   func(*result.Record) float64 // as a share of the packets
}{
	{"retransmits", retransmits},
	{"checksum errors", func(r *result.Record) float64 { return counted(r, "tcp/checksum_errors", "udp/checksum_errors") }},
	{"drops", func(r *result.Record) float64 {
		return counted(r, "links/rx_dropped", "links/tx_dropped", "tcp/backlog_drops", "tcp/receive_queue_drops")
	}},
}

// maxSteal is the share of the time of all cores in which they may have been taken away
// from us; in more, a measurement is void.
const maxSteal = 0.05

// sampleOf reads the figures of some metrics off a record.
func sampleOf(r *result.Record, metrics []search.Metric) search.Sample {
	var s search.Sample
	for _, f := range figures {
		if slices.ContainsFunc(metrics, func(m search.Metric) bool { return m.Name == f.name }) {
			s.Values = append(s.Values, f.of(r))
		}
	}
	for _, t := range troubles {
		s.Troubles = append(s.Troubles, t.of(r))
	}
	wall, steal := 0.0, 0.0
	for _, m := range r.Meters {
		if m.Name == "cpu" {
			wall += float64(m.WallNs) * float64(cores(m))
			steal += float64(m.Values["steal"])
		}
	}
	if wall > 0 && steal/wall > maxSteal {
		s.Void = fmt.Sprintf("the hypervisor took the CPU away for %.0f %% of the time", 100*steal/wall)
	}
	return s
}

// cores is how many cores a meter has measured; one, if it does not tell them apart.
func cores(m result.Meter) (n int) {
	for range m.Cores("busy") {
		n++
	}
	return max(n, 1)
}

// delivered tells whether anything came through at all; else why not.
func delivered(r *result.Record) error {
	for _, s := range r.Slices {
		if s.Latency != nil && s.Latency.Replies > 0 || s.Stream != nil && max(s.Stream.RecvMessages, s.Stream.RateMessages) > 0 {
			return nil
		}
	}
	for _, w := range r.Warnings {
		return fmt.Errorf("%s: %s", w.Cell, w.Text)
	}
	return fmt.Errorf("no traffic arrived")
}

// loadOf is the load of a slice's or a meter's cell.
func loadOf(r *result.Record, cell string) string {
	for _, c := range r.Plan.Cells {
		if c.Name == cell {
			return c.Load
		}
	}
	return ""
}

// medianOf is the median of what the slices of a load give; NaN for none.
func medianOf(r *result.Record, load string, of func(result.Slice) (float64, bool)) float64 {
	var all []float64
	for _, s := range r.Slices {
		if loadOf(r, s.Cell) != load {
			continue
		}
		if v, ok := of(s); ok && v > 0 {
			all = append(all, v)
		}
	}
	return stats.Median(all)
}

func medianLatency(r *result.Record) float64 {
	return medianOf(r, latencyLoad, func(s result.Slice) (float64, bool) {
		if s.Latency == nil || s.Latency.Replies == 0 {
			return 0, false
		}
		return float64(s.Latency.RTTMedian) / 2, true
	})
}

// medianRate is what a load's slices received a second. Where nothing arrived of much,
// it is as if one message had: that is as bad as it can be, and must not be taken for
// a figure that is missing.
func medianRate(load string) func(*result.Record) float64 {
	return func(r *result.Record) float64 {
		return medianOf(r, load, func(s result.Slice) (float64, bool) {
			switch t := s.Stream; {
			case t == nil:
				return 0, false
			case t.RateNs > 0:
				return float64(max(1, t.RateMessages)) / float64(t.RateNs) * 1e9, true
			case t.SentMessages >= enoughSent && t.RecvMessages == 0 && t.SendNs > 0:
				return 1 / float64(t.SendNs) * 1e9, true
			}
			return 0, false
		})
	}
}

// enoughSent is how many messages must have been sent for it to mean something that
// none arrived.
const enoughSent = 100

// tail is a percentile of all round trips together; one of few is none.
func tail(q float64) func(*result.Record) float64 {
	return func(r *result.Record) float64 {
		var all []stats.Histogram
		for _, s := range r.Slices {
			if s.Latency == nil || len(s.Latency.RTT) == 0 {
				continue
			}
			buckets, err := result.RTTBuckets(s.Latency.RTT)
			if err != nil {
				continue
			}
			h := make(stats.Histogram, len(buckets))
			for i, b := range buckets {
				h[i] = stats.Bucket(b)
			}
			all = append(all, h)
		}
		for _, p := range stats.Percentiles(all, []float64{q}, stats.Bootstrap{}) {
			return p.Value
		}
		return math.NaN()
	}
}

// costPerByte is the CPU time of all cores, ns, for a byte of the stream.
func costPerByte(r *result.Record) float64 {
	bytes, busy := 0.0, 0.0
	for _, s := range r.Slices {
		if s.Stream != nil && loadOf(r, s.Cell) == streamLoad {
			bytes += float64(s.Stream.RecvBytes)
		}
	}
	for _, m := range r.Meters {
		if m.Name == "cpu" && loadOf(r, m.Cell) == streamLoad {
			busy += float64(m.Values["busy"])
		}
	}
	if bytes == 0 || busy == 0 {
		return math.NaN()
	}
	return busy / bytes
}

func retransmits(r *result.Record) float64 {
	packets, again := 0.0, 0.0
	for _, s := range r.Slices {
		if s.Stream != nil && loadOf(r, s.Cell) == streamLoad {
			packets += float64(s.Stream.Packets)
			again += float64(s.Stream.Retransmits)
		}
	}
	if packets == 0 {
		return 0
	}
	return min(1, again/packets)
}

// counted adds counters of the TCP loads up, as a share of the segments that were
// sent. Datagrams that are sent as fast as it goes are lost anyway.
func counted(r *result.Record, keys ...string) float64 {
	segments, sum := 0.0, 0.0
	for _, m := range r.Meters {
		if loadOf(r, m.Cell) == packetLoad {
			continue
		}
		segments += float64(m.Values["tcp/out_segments"])
		for _, k := range keys {
			sum += float64(m.Values[k])
		}
	}
	if segments == 0 {
		return 0
	}
	return min(1, sum/segments)
}
