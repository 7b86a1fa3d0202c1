package watch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// madeUp measures a path that is slower from some run on.
type madeUp struct {
	changeAt int
	cells    []result.Cell
	runs     int
}

func (m *madeUp) measure(context.Context) (*result.Record, error) {
	m.runs++
	vxlan := recordtest.Path("vxlan", 1.30)
	if m.changeAt > 0 && m.runs >= m.changeAt {
		vxlan.Factor = 1.43
	}
	rec := recordtest.Make(recordtest.Truth{Seed: uint64(m.runs), Series: 3, Rounds: 4, Noise: recordtest.Quiet, Meters: true, Histograms: m.runs == 1,
		Arms: []recordtest.Arm{recordtest.Host(), recordtest.Copy(), vxlan}, Cells: m.cells})
	rec.Header.Started = time.Date(2026, 1, 2, m.runs, 0, 0, 0, time.UTC)
	return rec, nil
}

var key = RatioID{"vxlan", recordtest.TCPLat.Name}

// A ratio that moves is found soon, told in the log, and counted; one that does not is
// let be.
func TestPlantedChange(t *testing.T) {
	const changeAt, runs = 25, 33
	var log bytes.Buffer
	m := &madeUp{changeAt: changeAt, cells: []result.Cell{recordtest.TCPLat}}
	s := New(m.measure, Options{Runs: runs, FalseAlarm: 1000, Log: &log})
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := s.ratios[key]
	if w == nil || w.changes != 1 {
		t.Fatalf("%+v after:\n%s", w, log.String())
	}
	if got := w.last.After / w.last.Before; got < 1.08 || got > 1.12 {
		t.Errorf("it changed by a factor of %.3f, want 1.1", got)
	}
	if got := w.last.Since.Sub(time.Date(2026, 1, 2, changeAt, 0, 0, 0, time.UTC)).Abs(); got > time.Hour {
		t.Errorf("the change is %s off the planted one", got)
	}
	if !strings.Contains(log.String(), "CHANGED: vxlan in "+key.Cell+": its ratio changed from 1.3") {
		t.Errorf("the log has no change:\n%s", log.String())
	}
	log.Reset()
	m = &madeUp{cells: m.cells}
	s = New(m.measure, Options{Runs: runs, FalseAlarm: 1000, Log: &log})
	if err := s.Run(t.Context()); err != nil || s.ratios[key].changes != 0 {
		t.Errorf("%v; without a change:\n%s", err, log.String())
	}
}

// A service that is started again goes on from the history.
func TestGoesOn(t *testing.T) {
	var file bytes.Buffer
	save := func(h RatioHistory) error {
		file.Reset()
		return h.Write(&file)
	}
	m := &madeUp{changeAt: 16, cells: []result.Cell{recordtest.TCPLat}}
	for range 11 { // two runs each, and the change in the middle
		var h RatioHistory
		if file.Len() > 0 {
			var err error
			if h, err = ReadRatios(bytes.NewReader(file.Bytes())); err != nil {
				t.Fatal(err)
			}
		}
		s := New(m.measure, Options{Runs: 2, FalseAlarm: 100, Log: io.Discard, History: h, Save: save})
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m.runs == 22 && s.ratios[key].changes != 1 {
			t.Errorf("%+v", s.ratios[key])
		}
	}
	if _, err := ReadRatios(strings.NewReader(`{"version":2}`)); err == nil {
		t.Error("a newer history was read")
	}
	if _, err := ReadRatios(strings.NewReader(`{"version":1,"runs":[{"ratios":{"a":{"b":-1,"c":0}}}]}{`)); err != nil {
		t.Error(err)
	}
}

// A counter never falls: it holds also what was counted in runs that are no longer kept, and whatever the
// threshold was. A history of an earlier version has no counts, and its runs are searched.
func TestChangesKept(t *testing.T) {
	var kept RatioHistory
	m := &madeUp{changeAt: 16, cells: []result.Cell{recordtest.TCPLat}}
	s := New(m.measure, Options{Runs: 24, FalseAlarm: 100, Log: io.Discard, Save: func(h RatioHistory) error { kept = h; return nil }})
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := *s.ratios[key]
	var file bytes.Buffer
	if err := kept.Write(&file); err != nil || want.changes != 1 {
		t.Fatalf("%v; %+v", err, want)
	}
	read := func() RatioHistory {
		h, err := ReadRatios(bytes.NewReader(file.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	old, short, strict := read(), read(), Options{FalseAlarm: 1_000_000, Log: io.Discard}
	old.Changes, short.Runs = nil, short.Runs[len(short.Runs)-2:]
	strict.History = read()
	for name, opt := range map[string]Options{
		"of an earlier version":  {FalseAlarm: 100, Log: io.Discard, History: old},
		"without its first runs": {FalseAlarm: 100, Log: io.Discard, History: short},
		"with another threshold": strict,
	} {
		got := New(m.measure, opt).ratios[key]
		if got.changes != want.changes || !got.last.Since.Equal(want.last.Since) || got.last.Before != want.last.Before {
			t.Errorf("%s: %d changes, the last %+v; want %d, %+v", name, got.changes, got.last, want.changes, want.last)
		}
	}
}

// The first run that cannot be made ends the service; a later one is counted.
func TestFailedRuns(t *testing.T) {
	m, n := &madeUp{cells: []result.Cell{recordtest.TCPLat}}, 0
	failsFrom := func(at int) func(context.Context) (*result.Record, error) {
		n = 0
		return func(ctx context.Context) (*result.Record, error) {
			if n++; n >= at {
				return nil, verr.New(verr.Failed, "cannot measure", "planted\x1b[2J", "do nothing")
			}
			return m.measure(ctx)
		}
	}
	var log bytes.Buffer
	if err := New(failsFrom(1), Options{Log: &log}).Run(t.Context()); verr.Code(err) != verr.Failed {
		t.Errorf("the first run: %v", err)
	}
	s := New(failsFrom(2), Options{Log: &log, Runs: 4})
	if err := s.Run(t.Context()); err != nil || s.state.failed != 3 || s.state.measured != 1 {
		t.Errorf("%v, %d failed, %d measured", err, s.state.failed, s.state.measured)
	}
	if !strings.Contains(log.String(), "the run failed: cannot measure: planted") || strings.Contains(log.String(), "\x1b") {
		t.Errorf("the log: %q", log.String())
	}
}

// A path that dies does not just disappear: the run counts as partial, its metrics name the path, and
// what is left of its slices does not feed the search for changes.
func TestFailedPath(t *testing.T) {
	m := &madeUp{cells: []result.Cell{recordtest.TCPLat, recordtest.TCPBw}}
	var log bytes.Buffer
	s := New(func(ctx context.Context) (*result.Record, error) {
		rec, err := m.measure(ctx)
		for i := range rec.Slices {
			slice := &rec.Slices[i]
			if slice.Arm == "vxlan" && (slice.Cell == key.Cell || slice.Round == 0) {
				slice.Failed, slice.Latency, slice.Stream = "planted", nil, nil
			}
		}
		return rec, errors.Join(err, verr.New(verr.Partial, "path vxlan was not measured to the end", "planted", "look"))
	}, Options{Runs: 2, Log: &log})
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := s.state.last; s.state.partial != 2 || s.state.measured+s.state.failed != 0 || last.size() != 0 {
		t.Errorf("%d partial, %d measured, %d failed; ratios %v", s.state.partial, s.state.measured, s.state.failed, last.Ratios)
	}
	for _, want := range []string{"path vxlan was not measured to the end: planted", "vxlan in " + recordtest.TCPBw.Name + " is left out"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, log.String())
		}
	}
	text := metricsText(t, s)
	for _, want := range []string{
		`venturi_watch_runs_total{outcome="partial"} 2`, `venturi_path_failed{cell="tcp_lat/1",flows="1",load="tcp_lat",path="vxlan",size="1"} 1`,
		`venturi_path_failed{cell="tcp_lat/1",flows="1",load="tcp_lat",path="host",size="1"} 0`,
		`venturi_path_slices_without_figure_ratio{cell="tcp_bw/65536",flows="1",load="tcp_bw",path="vxlan",size="65536"} 0.25`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
}

// A history that cannot be kept is told, and the run counts.
func TestHistoryNotSaved(t *testing.T) {
	m := &madeUp{cells: []result.Cell{recordtest.TCPLat}}
	var log bytes.Buffer
	s := New(m.measure, Options{Runs: 2, Log: &log, Save: func(RatioHistory) error { return errors.New("planted") }})
	if err := s.Run(t.Context()); err != nil || s.state.failed != 0 || s.state.measured != 2 {
		t.Errorf("%v, %d failed, %d measured", err, s.state.failed, s.state.measured)
	}
	if strings.Count(log.String(), "cannot keep the history: planted") != 2 {
		t.Errorf("the log: %q", log.String())
	}
}

// Only what the last run has measured is served, and it has no label that each run changes.
func TestLastRunServed(t *testing.T) {
	m := &madeUp{cells: []result.Cell{recordtest.TCPLat}}
	old := RatioHistory{Runs: []RunRatios{{Ratios: map[string]map[string]float64{"tcp_lat/1": {"gone": 2}}}}}
	s := New(m.measure, Options{Runs: 1, Log: io.Discard, History: old})
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				switch {
				case l.GetName() == "seed":
					t.Errorf("%s has the seed", f.GetName())
				case l.GetName() == "path" && f.GetName() == "venturi_watch_changes_total":
					paths[l.GetValue()] = true
				}
			}
		}
	}
	if paths["gone"] || !paths["vxlan"] {
		t.Errorf("paths %v", paths)
	}
}

// Metrics are served while runs go on, in both forms, and as Prometheus' own linter
// asks for. The end of the context ends it all.
func TestServe(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	m, blocked := served(8), make(chan struct{}, 1)
	s := New(func(ctx context.Context) (*result.Record, error) {
		if m.runs < 22 {
			return m.measure(ctx)
		}
		blocked <- struct{}{} // a run goes on
		<-ctx.Done()
		return nil, errors.New("interrupted")
	}, Options{FalseAlarm: 10, Log: &testenv.Output{}})
	ended := make(chan error, 2)
	go func() { ended <- s.Run(ctx) }()
	go func() { ended <- s.Serve(ctx, listener) }()
	scrape(t, listener, "") // at any time
	<-blocked
	text := scrape(t, listener, "")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, want := range []string{
		`venturi_watch_runs_total{outcome="measured"} 22`, `venturi_watch_changes_total{cell="tcp_lat/1",path="vxlan"} 1`,
		`venturi_watch_last_change_ratio{cell="tcp_lat/1",path="vxlan"} 1.`, `venturi_path_ratio{cell="tcp_lat/1"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
	if text := scrape(t, listener, "application/openmetrics-text"); !strings.HasSuffix(text, "# EOF\n") {
		t.Error("OpenMetrics were asked for, and have no end")
	}
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if _, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		t.Error("it still listens")
	}
}

func served(changeAt int) *madeUp {
	return &madeUp{changeAt: changeAt, cells: []result.Cell{recordtest.TCPLat, recordtest.TCPBw, recordtest.UDPMsg}}
}

func scrape(t *testing.T, l net.Listener, accept string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+l.Addr().String()+MetricsPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v: %s", answer.Status, err, text)
	}
	return string(text)
}

// metricsText is what a service serves.
func metricsText(t *testing.T, s *Service) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// gathered is the labels of all metrics of a service that has found a change.
func gathered(t *testing.T) map[string]map[string]bool {
	t.Helper()
	s := New(served(8).measure, Options{Runs: 20, FalseAlarm: 10, Log: io.Discard})
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]map[string]bool{}
	for _, f := range families {
		labels[f.GetName()] = map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[f.GetName()][l.GetName()] = true
			}
		}
	}
	return labels
}
