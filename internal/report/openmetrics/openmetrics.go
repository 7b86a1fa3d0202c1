// Package openmetrics prints the figures of a record for Prometheus.
package openmetrics

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// gauge is a metric, and where a row has its value; false: it has none.
type gauge struct {
	name, help string
	value      func(*analysis.Cell, *analysis.Row) (float64, bool)
}

// gauges are of a path in a load.
var gauges = []gauge{
	{"path_ratio", "Ratio of the path to the baseline in the same rounds.", func(_ *analysis.Cell, r *analysis.Row) (float64, bool) {
		if r.Ratio == nil {
			return 0, false
		}
		return r.Ratio.Value, true
	}},
	{"path_ratio_lower_bound", "Lower end of the interval of the ratio.", boundOf(func(x stats.Ratio) float64 { return x.Lo })},
	{"path_ratio_upper_bound", "Upper end of the interval of the ratio.", boundOf(func(x stats.Ratio) float64 { return x.Hi })},
	{"path_one_way_seconds", "Median of half the round trip.", inMetric(1e-9, result.OneWay)},
	{"path_round_trip_seconds", "Median round trip, from when each request was due.", inMetric(1e-9, result.RoundTrip)},
	{"path_received_bytes_per_second", "Bytes that arrived each second.", inMetric(1.0/8, result.Bandwidth)},
	{"path_received_messages_per_second", "Messages that arrived each second.", inMetric(1, result.Messages)},
	{"path_replies_per_second", "Requests answered each second.", inMetric(1, result.Transactions)},
	{"path_connections_per_second", "Connections opened, used for one request and closed each second.", inMetric(1, result.Connections)},
	{"path_lost_requests", "Requests without a reply in time.", func(_ *analysis.Cell, r *analysis.Row) (float64, bool) {
		if r.Latency == nil {
			return 0, false
		}
		return float64(r.Latency.Lost), true
	}},
	{"path_lost_datagrams_ratio", "Share of the datagrams that were lost.", func(c *analysis.Cell, r *analysis.Row) (float64, bool) {
		if r.Stream == nil || c.Cell.Transport != "udp" {
			return 0, false
		}
		return r.Stream.LossShare(), true
	}},
	{"path_slices_without_figure_ratio", "Share of the slices that have no figure.", func(_ *analysis.Cell, r *analysis.Row) (float64, bool) {
		if r.Slices == 0 {
			return 1, true
		}
		return float64(r.NoFigure) / float64(r.Slices), true
	}},
	{"path_emulated", "1 where the CPU of the machine, or of one on the path, is emulated.", func(_ *analysis.Cell, r *analysis.Row) (float64, bool) {
		return 1, r.Emulated != ""
	}},
	{"path_busy_cores", "Cores that were busy, on average.", func(_ *analysis.Cell, r *analysis.Row) (float64, bool) {
		if r.CPU == nil {
			return 0, false
		}
		return r.CPU.Cores, true
	}},
}

func boundOf(f func(stats.Ratio) float64) func(*analysis.Cell, *analysis.Row) (float64, bool) {
	return func(_ *analysis.Cell, r *analysis.Row) (float64, bool) {
		if r.Ratio == nil || r.Ratio.Open {
			return 0, false
		}
		return f(*r.Ratio), true
	}
}

// inMetric is a row's figure where it is of that metric, in another unit.
func inMetric(unit float64, m result.Metric) func(*analysis.Cell, *analysis.Row) (float64, bool) {
	return func(c *analysis.Cell, r *analysis.Row) (float64, bool) {
		return r.Value * unit, c.Cell.Metric == m && r.Value > 0
	}
}

// gaugeVerdicts are the states of a verdict.
var gaugeVerdicts = []stats.Verdict{stats.Faster, stats.Slower, stats.Equivalent, stats.CannotTell}

const namespace = "venturi_"

// Write prints a record in the OpenMetrics text format: gauges with the
// labels path, load, size and flows.
func Write(w io.Writer, rec *result.Record, s *analysis.Summary, _ view.Options) error {
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(runMetrics{rec: rec, sum: s, extra: []string{"seed", strconv.FormatUint(rec.Plan.Seed, 10)}}); err != nil {
		return err
	}
	families, err := registry.Gather()
	if err != nil {
		return fmt.Errorf("gather metrics: %w", err)
	}
	out := expfmt.NewEncoder(w, expfmt.NewFormat(expfmt.TypeOpenMetrics))
	for _, f := range families {
		if err := out.Encode(f); err != nil {
			return err
		}
	}
	if end, ok := out.(expfmt.Closer); ok {
		return end.Close() // which writes the mark of the end
	}
	return nil
}

// Collector gives the metrics of a record to a registry. A service that measures again and
// again serves them, so they have no label that is another in each run, such as the seed, and
// no counts that only grow: the next run has its own.
func Collector(rec *result.Record, s *analysis.Summary) prometheus.Collector {
	return runMetrics{rec: rec, sum: s, repeated: true}
}

// runMetrics is a record as Prometheus collects it.
type runMetrics struct {
	rec      *result.Record
	sum      *analysis.Summary
	extra    []string // labels of the run_info metric, each a name and a value
	repeated bool     // the metrics of other runs follow
}

// Describe sends nothing: what there is depends on the record.
func (runMetrics) Describe(chan<- *prometheus.Desc) {}

// sender takes a gauge; labels are a name and a value each.
type sender func(name, help string, value float64, labels ...string)

// Collect is [prometheus.Collector.Collect].
func (m runMetrics) Collect(out chan<- prometheus.Metric) {
	send := func(name, help string, value float64, labels ...string) {
		desc, values := describe(name, help, labels)
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, values...)
	}
	send("run_info", "The run, by its labels.", 1, append([]string{"version", m.rec.Header.Venturi}, m.extra...)...)
	if start := m.rec.Header.Started; !start.IsZero() {
		send("run_start_timestamp_seconds", "When the run began.", float64(start.UnixMilli())/1e3)
	}
	if m.rec.End != nil {
		send("run_duration_seconds", "How long the run took.", m.rec.End.Took.Seconds())
	}
	for _, c := range m.sum.Planned() {
		load := []string{"load", c.Cell.Load, "size", strconv.Itoa(c.Cell.Size), "flows", strconv.Itoa(c.Cell.Flows), "cell", c.Cell.Name}
		if c.Floor != nil && !c.Floor.Ratio.Open {
			send("noise_floor_ratio", "How far two identical paths seem to differ.", c.Floor.Size, load...)
		}
		for j := range c.Rows {
			r := &c.Rows[j]
			labels := append([]string{"path", r.Arm.Name}, load...)
			send("path_failed", "1 where the path has failed in the load, or has no figure, else 0.", oneIf(m.failed(c, r)), labels...)
			for _, g := range gauges {
				if v, ok := g.value(c, r); ok {
					send(g.name, g.help, v, labels...)
				}
			}
			switch {
			case r.Latency == nil:
			case m.repeated:
				sendRoundTrips(send, r.Latency, labels)
			default:
				out <- roundTrips(r.Latency, labels)
			}
			if r.Judged == nil {
				continue
			}
			for _, v := range gaugeVerdicts {
				send("path_verdict", "1 for the verdict of the path, 0 for the others.", oneIf(r.Judged.Verdict == v), append(labels, "verdict", string(v))...)
			}
		}
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// failed tells whether a path has no figure in a load, or was left out of it on the way. One that does
// not hold a rate works.
func (m runMetrics) failed(c *analysis.Cell, r *analysis.Row) bool {
	return r.Value == 0 && !view.NotHeld(r) || slices.ContainsFunc(m.rec.Warnings, func(w result.Warning) bool {
		return w.Code == "arm-failed" && w.Arm == r.Arm.Name && (w.Cell == "" || w.Cell == c.Cell.Name)
	})
}

// sendRoundTrips sends a path's round trips as gauges: the count and sum of a summary may not fall,
// and the next run may have fewer replies. The label quantile is a summary's own.
func sendRoundTrips(send sender, l *analysis.Latency, labels []string) {
	send("path_replies", "Replies in the run.", float64(l.Replies), labels...)
	if l.Replies > 0 {
		send("path_rtt_mean_seconds", "Mean round trip of all replies.", l.MeanRTT/1e9, labels...)
	}
	for _, p := range l.Percentiles {
		send("path_rtt_quantile_seconds", "Quantile of the round trips of all replies.", p.Value/1e9,
			append(labels, "q", strconv.FormatFloat(p.Q, 'g', -1, 64))...)
	}
}

// roundTrips is the summary of a path's round trips.
func roundTrips(l *analysis.Latency, labels []string) prometheus.Metric {
	quantiles := map[float64]float64{}
	for _, p := range l.Percentiles {
		quantiles[p.Q] = p.Value / 1e9
	}
	desc, values := describe("path_rtt_seconds", "Round trips of all replies.", labels)
	return prometheus.MustNewConstSummary(desc, uint64(max(0, l.Replies)), l.MeanRTT/1e9*float64(l.Replies), quantiles, values...)
}

// describe parts labels, each a name and a value, and makes the values such that
// a terminal can show them.
func describe(name, help string, labels []string) (*prometheus.Desc, []string) {
	var names, values []string
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, sanitize.Text(labels[i+1]))
	}
	return prometheus.NewDesc(namespace+name, help, names, nil), values
}
