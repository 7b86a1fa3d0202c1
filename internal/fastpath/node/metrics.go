package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// The metrics of a fast path.
var (
	carryingDesc = prometheus.NewDesc("venturi_fastpath_carrying", "Whether flows are carried now: 1, or 0 with the reason.", []string{"reason"}, nil)
	podsDesc     = prometheus.NewDesc("venturi_fastpath_pods", "Pods whose flows are carried.", nil, nil)
	peersDesc    = prometheus.NewDesc("venturi_fastpath_peers", "Peers that flows are carried to.", nil, nil)
	flowsDesc    = prometheus.NewDesc("venturi_fastpath_flows", "Flows in the table.", nil, nil)
	refusedDesc  = prometheus.NewDesc("venturi_fastpath_refused", "Devices that are left slow, with the reason.", []string{"device", "reason"}, nil)
	packetsDesc  = prometheus.NewDesc("venturi_fastpath_packets_total", "Packets that the programs saw, by what became of them. Large ones count as one, before they are cut.", []string{"outcome"}, nil)
	bytesDesc    = prometheus.NewDesc("venturi_fastpath_bytes_total", "Bytes of these packets.", []string{"outcome"}, nil)
)

// Metrics collects those of the fast path of the network namespace that this process is in.
type Metrics struct{}

// Describe is [prometheus.Collector.Describe]. It sends nothing: what there is depends on the
// fast path.
func (Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect is [prometheus.Collector.Collect].
func (Metrics) Collect(out chan<- prometheus.Metric) {
	s, err := ReadStatus()
	if err != nil {
		out <- prometheus.NewInvalidMetric(carryingDesc, err)
		return
	}
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	switch {
	case s.State == nil || !s.Running:
		gauge(carryingDesc, 0, "it is not running")
		return
	case s.State.Off != "":
		gauge(carryingDesc, 0, sanitize.Text(s.State.Off))
	default:
		gauge(carryingDesc, 1, "")
	}
	gauge(podsDesc, s.State.Pods)
	gauge(peersDesc, s.State.Peers)
	gauge(flowsDesc, s.Table.Flows)
	for _, r := range s.State.Refused {
		gauge(refusedDesc, 1, sanitize.Text(r.Device), sanitize.Text(r.Reason))
	}
	for _, stat := range s.Stats {
		out <- prometheus.MustNewConstMetric(packetsDesc, prometheus.CounterValue, float64(stat.Packets), stat.Count.Key())
		out <- prometheus.MustNewConstMetric(bytesDesc, prometheus.CounterValue, float64(stat.Bytes), stat.Count.Key())
	}
}
