package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/report/figure"
	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/study"
	"github.com/venturi-net/venturi/internal/testenv/plain"
	"github.com/venturi-net/venturi/result"
)

// mostPage is the size of the page of a default run, bytes.
const mostPage = 300_000

// figureSamples show each kind of figure once.
var figureSamples = []sample{
	{"ratios.svg", reporttest.UsualRecord, view.Options{Format: "svg"}},
	{"noisy-ratios.svg", noisy, view.Options{Format: "svg", Figure: "ratios"}},
	{"sizes.svg", sweep, view.Options{Format: "svg", Figure: "sizes"}},
	{"size-ratios.svg", sweep, view.Options{Format: "svg", Figure: "size-ratios/udp_lat"}},
	{"latency.svg", reporttest.UsualRecord, view.Options{Format: "svg", Figure: "latency/udp_lat/1"}},
	{"cpu.svg", reporttest.UsualRecord, view.Options{Format: "svg", Figure: "cpu"}},
	{"threads.svg", fullThread, view.Options{Format: "svg", Figure: "threads"}},
	{"load-latency.svg", loadCurve, view.Options{Format: "svg", Figure: "load-latency/ping/56 beside udp_bw/1/p99"}},
	{"load-latency-p99.9.svg", longLoadCurve, view.Options{Format: "svg", Figure: "load-latency/ping/56 beside udp_bw/1/p99.9"}},
	{"time.svg", noisy, view.Options{Format: "svg", Figure: "time"}},
}

func TestFigures(t *testing.T) {
	shown := map[string]bool{}
	for _, s := range figureSamples {
		var out bytes.Buffer
		if err := Write(&out, s.make(), s.opt); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		wellFormed(t, out.String())
		reporttest.Golden(t, s.name, out.Bytes())
		kind, _, _ := strings.Cut(s.opt.Figure, "/")
		shown[kind] = true
	}
	for _, name := range figure.Kinds() {
		if !shown[name] {
			t.Errorf("no sample shows %s", name)
		}
	}
}

// The points of a sweep are in the order of their sizes, whatever that of the plan.
func TestSweepOrder(t *testing.T) {
	turned := *sweep()
	turned.Plan.Cells = slices.Clone(turned.Plan.Cells)
	slices.Reverse(turned.Plan.Cells)
	for _, opt := range []view.Options{{Format: "svg", Figure: "sizes"}, {Format: "svg", Figure: "size-ratios"}} {
		var want, got bytes.Buffer
		if err := errors.Join(Write(&want, sweep(), opt), Write(&got, &turned, opt)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), got.String()); diff != "" {
			t.Errorf("%+v: the order of the plan shows:\n%s", opt, diff)
		}
	}
}

// CPU time beside a stream is mostly the stream's, and is no cost of the load.
func TestNoCostBesideStream(t *testing.T) {
	kinds, _ := drawings(t, backgroundStream())
	if slices.Contains(kinds, "cpu") {
		t.Errorf("figures of the kinds %v", kinds)
	}
}

func TestFigureUnknown(t *testing.T) {
	for _, name := range []string{"pie", "latency"} { // the latter: there are several
		err := Write(io.Discard, reporttest.UsualRecord(), view.Options{Format: "svg", Figure: name})
		if !errors.Is(err, figure.ErrNoFigure) || !strings.Contains(err.Error(), "latency/udp_lat/1") {
			t.Errorf("figure %s: %v", name, err)
		}
	}
	if err := Write(io.Discard, recordtest.Make(reporttest.Small(recordtest.TCPLat)), view.Options{Format: "svg", Figure: "latency"}); err != nil {
		t.Errorf("there is only one: %v", err)
	}
}

// A page is one file: nothing of it is fetched, and nothing runs.
func TestPage(t *testing.T) {
	plain.SkipShort(t)
	shown := map[string]bool{}
	for name, p := range pages(t) {
		var out bytes.Buffer
		if err := Write(&out, p.record, view.Options{Format: "html"}); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if name == "usual" && len(text) > mostPage {
			t.Errorf("%s: %d bytes, at most %d", name, len(text), mostPage)
		}
		fetched := regexp.MustCompile(`(?i)<script|\son\w+=|src=|url\(|@import|href="[^d]|https?://`)
		if found := fetched.FindString(strings.ReplaceAll(text, `xmlns="http://www.w3.org/2000/svg"`, "")); found != "" {
			t.Errorf("%s: a page holds %q", name, found)
		}
		kinds, titles := drawings(t, p.record)
		if !slices.Equal(kinds, strings.Fields(p.kinds)) {
			t.Errorf("%s: figures of the kinds %v, want %s", name, kinds, p.kinds)
		}
		for _, k := range kinds {
			shown[k] = true
		}
		svgs := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1)
		if len(svgs) != 2*len(titles) {
			t.Errorf("%s: %d drawings, want each of %d figures in two widths", name, len(svgs), len(titles))
		}
		for _, svg := range svgs {
			wellFormed(t, svg)
		}
	}
	for _, k := range figure.Kinds() {
		if !shown[k] {
			t.Errorf("no page shows a figure of the kind %s", k)
		}
	}
}

// The machines, and in what they differ, are above the figures of a page, and not below them again.
func TestPageOfMachines(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, twoMachines(), view.Options{Format: "html"}); err != nil {
		t.Fatal(err)
	}
	above, below, _ := strings.Cut(out.String(), "<svg")
	for _, label := range []string{"<dt>machine</dt>", "<dt>differ</dt>"} {
		if !strings.Contains(above, label) || strings.Contains(below, label) {
			t.Errorf("%s is above the figures: %v, below: %v", label, strings.Contains(above, label), strings.Contains(below, label))
		}
	}
}

// drawings are the kinds of the figures of a record, and the title of each figure.
func drawings(t *testing.T, rec *result.Record) (kinds, titles []string) {
	t.Helper()
	s, err := analysis.Analyze(rec, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range figure.Kinds() {
		of := figure.Drawings(rec, s, kind)
		if len(of) > 0 {
			kinds = append(kinds, kind)
		}
		for _, d := range of {
			titles = append(titles, d.Texts.Title)
		}
	}
	return kinds, titles
}

// samplePage is a record, and the kinds of figures that its page has.
type samplePage struct {
	record *result.Record
	kinds  string
}

// pages are records whose pages differ in kind, and one of each wire of each study.
func pages(t *testing.T) map[string]samplePage {
	t.Helper()
	const usual, withThreads = "ratios latency cpu time", "ratios latency cpu threads time"
	out := map[string]samplePage{
		"usual":     {reporttest.UsualRecord(), usual},
		"sweep":     {sweep(), "sizes size-ratios time"},
		"noisy":     {noisy(), usual},
		"failed":    {failedArm(), usual},
		"truncated": {truncated(), "ratios latency time"},
		"emulated":  {emulatedArm(), "ratios cpu time"},
		"hostile":   {hostile(), usual},
		"curve":     {loadCurve(), "ratios load-latency latency cpu time"},
		"threads":   {fullThread(), withThreads},
	}
	kinds := map[string]string{
		"calico-bgp-vs-ovs": "ratios sizes size-ratios cpu threads time",
		"cilium-tuning":     withThreads, "kube-ovn-tuning": withThreads, "ovs-vxlan-latency": withThreads,
		"qinq": "ratios cpu threads time", // streams only
	}
	for _, name := range study.Names() {
		s, err := study.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, q := range s.Requests() {
			plan, err := q.Plan()
			if err != nil {
				t.Fatal(err)
			}
			out[strings.TrimSuffix(name+"-"+s.Wires[i].Name, "-")] = samplePage{recordtest.MakePlan(plan), kinds[name]}
		}
	}
	return out
}

func wellFormed(t *testing.T, svg string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
	}
}

// longLoadCurve has enough round trips at each load for one in a thousand to be told.
func longLoadCurve() *result.Record {
	t := reporttest.Small(recordtest.Curve(0, 0.5, 0.9)...)
	t.Series, t.Rounds = 5, 20
	return recordtest.Make(t)
}

// A percentile for which no load has enough round trips has no figure.
func TestLoadLatencyOfShortRun(t *testing.T) {
	opt := view.Options{Format: "svg", Figure: "load-latency/ping/56 beside udp_bw/1/p99.9"}
	if err := Write(io.Discard, loadCurve(), opt); !errors.Is(err, figure.ErrNoFigure) {
		t.Errorf("drawn of %d round trips: %v", 1200, err)
	}
}

// loadCurve has the latency of two paths at several loads.
var loadCurve = sync.OnceValue(func() *result.Record {
	t := reporttest.Small(recordtest.Curve(0, 0.25, 0.5, 0.75, 0.9)...)
	t.Series, t.Rounds = 3, 4
	return recordtest.Make(t)
})
