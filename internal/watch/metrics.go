package watch

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/openmetrics"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// state is what is served: the last run, and what all of them came to.
type state struct {
	mu                        sync.Mutex
	rec                       *result.Record // nil: none yet
	sum                       *analysis.Summary
	measured, partial, failed int
	interval                  time.Duration
	threshold                 float64
	ratios                    map[RatioID]*watchedRatio
	last                      RunRatios // of the last run: the ratios that are served
}

func (s *state) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// The metrics of a service, beside those of its last run.
var (
	runsDesc      = prometheus.NewDesc("venturi_watch_runs_total", "Runs since the service began, by their outcome.", []string{"outcome"}, nil)
	intervalDesc  = prometheus.NewDesc("venturi_watch_interval_seconds", "Time from the start of one run to the start of the next.", nil, nil)
	thresholdDesc = prometheus.NewDesc("venturi_watch_change_threshold", "Evidence at which a ratio counts as changed.", nil, nil)
	evidenceDesc  = prometheus.NewDesc("venturi_watch_change_evidence", "Evidence that the ratio has changed since its last detected change.", []string{"path", "cell"}, nil)
	changesDesc   = prometheus.NewDesc("venturi_watch_changes_total", "Detected changes of the ratio.", []string{"path", "cell"}, nil)
	changedDesc   = prometheus.NewDesc("venturi_watch_last_change_ratio", "The ratio after its last change, divided by the one before.", []string{"path", "cell"}, nil)
	changeAtDesc  = prometheus.NewDesc("venturi_watch_last_change_timestamp_seconds", "Start of the first run after the last change of the ratio.", []string{"path", "cell"}, nil)
)

// Describe is [prometheus.Collector.Describe]. It sends nothing: what there is depends on
// the runs.
func (s *Service) Describe(chan<- *prometheus.Desc) {}

// Collect is [prometheus.Collector.Collect].
func (s *Service) Collect(out chan<- prometheus.Metric) {
	st := &s.state
	st.mu.Lock()
	defer st.mu.Unlock()
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	send(runsDesc, prometheus.CounterValue, float64(st.measured), "measured")
	send(runsDesc, prometheus.CounterValue, float64(st.partial), "partial")
	send(runsDesc, prometheus.CounterValue, float64(st.failed), "failed")
	send(intervalDesc, prometheus.GaugeValue, st.interval.Seconds())
	if st.threshold > 0 {
		send(thresholdDesc, prometheus.GaugeValue, st.threshold)
	}
	for key := range st.last.all() {
		w := st.ratios[key]
		labels := []string{sanitize.Text(key.Path), sanitize.Text(key.Cell)}
		send(evidenceDesc, prometheus.GaugeValue, w.detector.Evidence(), labels...)
		send(changesDesc, prometheus.CounterValue, float64(w.changes), labels...)
		if w.last.Before > 0 {
			send(changedDesc, prometheus.GaugeValue, w.last.After/w.last.Before, labels...)
			send(changeAtDesc, prometheus.GaugeValue, float64(w.last.Since.UnixMilli())/1e3, labels...)
		}
	}
	if st.rec != nil {
		openmetrics.Collector(st.rec, st.sum).Collect(out)
	}
}
