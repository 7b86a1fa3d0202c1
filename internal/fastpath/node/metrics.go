package node

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// familyLabel tells the version of IP: a node has a fast path for each.
const familyLabel = "family"

// The metrics of a fast path.
var (
	carryingDesc = prometheus.NewDesc("venturi_fastpath_carrying", "Whether flows are carried now: 1, or 0 with the reason.", []string{familyLabel, "reason"}, nil)
	podsDesc     = prometheus.NewDesc("venturi_fastpath_pods", "Pods whose flows are carried. One with addresses of both families counts in both.", []string{familyLabel}, nil)
	peersDesc    = prometheus.NewDesc("venturi_fastpath_peers", "Peers that flows are carried to.", []string{familyLabel}, nil)
	flowsDesc    = prometheus.NewDesc("venturi_fastpath_flows", "Flows in the table.", []string{familyLabel}, nil)
	refusedDesc  = prometheus.NewDesc("venturi_fastpath_refused", "Devices that are left slow, with the reason.", []string{familyLabel, "device", "reason"}, nil)
	epochsDesc   = prometheus.NewDesc("venturi_fastpath_epochs_total", "Epochs since the daemon started, by cause. In each, all flows are learned anew.", []string{familyLabel, "cause"}, nil)
	packetsDesc  = prometheus.NewDesc("venturi_fastpath_packets_total", "Packets that the programs saw, by what became of them. Large ones count as one, before they are cut.", []string{familyLabel, "outcome"}, nil)
	bytesDesc    = prometheus.NewDesc("venturi_fastpath_bytes_total", "Bytes of these packets, without the headers of tunnels.", []string{familyLabel, "outcome"}, nil)
)

// Metrics collects those of the fast path of the network namespace that this process is in. To count the flows
// takes the longer the more there are, so what was read is good for a second.
type Metrics struct {
	mu     sync.Mutex
	status Status
	err    error
	read   time.Time
}

// reread is how long what was read is good for.
const reread = time.Second

// Describe is [prometheus.Collector.Describe]. It sends nothing: what there is depends on the
// fast path.
func (*Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect is [prometheus.Collector.Collect].
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.read) >= reread {
		m.status, m.err = ReadStatus()
		m.read = time.Now()
	}
	s, err := m.status, m.err
	if err != nil {
		out <- prometheus.NewInvalidMetric(carryingDesc, err)
		return
	}
	if s.Config != nil || s.IPv6 == nil {
		s.collect(out, "IPv4")
	}
	if s.IPv6 != nil {
		s.IPv6.collect(out, "IPv6")
	}
}

// collect collects those of a family.
func (s Status) collect(out chan<- prometheus.Metric, family string) {
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), append([]string{family}, labels...)...)
	}
	counter := func(desc *prometheus.Desc, value uint64, label string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), family, label)
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
	if s.State.Epochs != nil {
		for _, cause := range fastpath.EpochCauses {
			counter(epochsDesc, s.State.Epochs.Counts[cause], string(cause))
		}
	}
	for _, stat := range s.Stats {
		counter(packetsDesc, stat.Packets, stat.Key())
		counter(bytesDesc, stat.Bytes, stat.Key())
	}
}
