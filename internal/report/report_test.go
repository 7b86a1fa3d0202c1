package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/report/figure"
	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/result"
)

// Benchstat's own parser must take every line, and know which way is better.
func TestBenchstatParses(t *testing.T) {
	var out bytes.Buffer
	rec := recordtest.Make(reporttest.Small(recordtest.TCPLat, recordtest.TCPBw))
	if err := Write(&out, rec, view.Options{Format: "benchstat"}); err != nil {
		t.Fatal(err)
	}
	in := benchfmt.NewReader(&out, "out")
	lines, paths := 0, map[string]bool{}
	for in.Scan() {
		switch r := in.Result().(type) {
		case *benchfmt.Result:
			lines++
			_, parts := r.Name.Parts()
			paths[string(parts[0])] = true
		case *benchfmt.SyntaxError:
			t.Error(r)
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	if want := 2 * len(rec.Plan.Arms) * rec.Plan.Series; lines != want || !paths["/path=vxlan"] {
		t.Errorf("%d lines over paths %v, want %d lines", lines, paths, want)
	}
}

// The plan of a run that ends when all is decided has more series than it can come to, so nobody is told of them.
func TestEndBanners(t *testing.T) {
	for want, end := range map[string]struct {
		reason       string
		untilDecided bool
	}{
		"OUT OF TIME after 3 of 6 series: intervals are wider than planned.":           {result.OutOfBudget, false},
		"OUT OF TIME: the budget was used up before every comparison had its verdict.": {result.OutOfBudget, true},
		"INTERRUPTED after 3 of 6 series. What was measured until then is reported.":   {result.Interrupted, false},
		"INTERRUPTED after 3 series. What was measured until then is reported.":        {result.Interrupted, true},
		"FAILED after 3 series: planted.":                                              {result.Failed, true},
	} {
		rec := recordtest.Make(reporttest.Small(recordtest.TCPLat))
		rec.Plan.UntilDecided = end.untilDecided
		rec.End.Reason, rec.End.Series, rec.End.Error = end.reason, 3, "planted"
		s, err := analysis.Analyze(rec, analysis.Options{Live: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := view.Banners(rec, s); len(got) == 0 || got[0] != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The mean over the sizes of a sweep says of how many it is where a path has no ratio in one of them.
func TestMeanOfSomeSizes(t *testing.T) {
	rec := recordtest.Make(sweepTruth())
	for i := range rec.Slices {
		if s := &rec.Slices[i]; s.Arm == "vxlan" && s.Cell == rec.Plan.Cells[4].Name {
			s.Failed, s.Latency = "planted", nil
		}
	}
	var out bytes.Buffer
	if err := Write(&out, rec, view.Options{}); err != nil {
		t.Fatal(err)
	}
	_, mean, _ := strings.Cut(out.String(), "geo mean")
	mean, _, _ = strings.Cut(mean, "\n")
	if fields := strings.Fields(mean); len(fields) != 5 || !strings.HasSuffix(strings.TrimSpace(mean), "(4 of 5)") {
		t.Errorf("means %q", mean)
	}
}

func TestCSVAndJSONParse(t *testing.T) {
	rec := recordtest.Make(reporttest.Small(recordtest.TCPLat, recordtest.UDPMsg))
	var out bytes.Buffer
	if err := Write(&out, rec, view.Options{Format: "csv"}); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != 1+2*4 {
		t.Fatalf("%d rows, %v; want a heading and four rows for each of two loads", len(rows), err)
	}
	out.Reset()
	if err := Write(&out, rec, view.Options{Format: "json"}); err != nil {
		t.Fatal(err)
	}
	var doc document
	dec := json.NewDecoder(&out)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if doc.Format != JSONFormat || doc.Version != JSONVersion || len(doc.Summary.Cells) != 2 {
		t.Errorf("document is %s version %d with %d cells", doc.Format, doc.Version, len(doc.Summary.Cells))
	}
}

// What arrived cannot be more than what was sent, whatever the two windows were.
func TestQperfReceivesNoMoreThanSent(t *testing.T) {
	rec := recordtest.Make(reporttest.Small(recordtest.UDPMsg))
	for i := range rec.Slices {
		rec.Slices[i].Stream.SendNs *= 2 // a sender that was slow to start
	}
	var out bytes.Buffer
	if err := Write(&out, rec, view.Options{Style: "qperf"}); err != nil {
		t.Fatal(err)
	}
	figures := map[string]string{}
	for line := range strings.Lines(out.String()) {
		if name, figure, ok := strings.Cut(line, "="); ok {
			figures[strings.TrimSpace(name)] = strings.TrimSpace(figure)
		} else if strings.HasPrefix(line, "# path routed") {
			break
		}
	}
	if figures["send_bw"] == "" || figures["recv_bw"] != figures["send_bw"] {
		t.Errorf("send_bw %q, recv_bw %q: want the same, nothing was lost", figures["send_bw"], figures["recv_bw"])
	}
	if !strings.Contains(out.String(), "msg/s, ") {
		t.Errorf("no messages and packets per second in:\n%s", out.String())
	}
}

// No line of the terminal table is wider than the terminal, as long as the
// columns that always stay fit.
func TestTableWidth(t *testing.T) {
	rec := reporttest.UsualRecord()
	for _, width := range []int{80, 100, 120, 200} {
		var out bytes.Buffer
		if err := Write(&out, rec, view.Options{Width: width}); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(out.String(), "\n") {
			// A block's heading may be longer: it is one sentence.
			if n := view.Cells.StringWidth(line); n > width && !strings.Contains(line, "noise floor ±") {
				t.Errorf("width %d: line of %d columns: %q", width, n, line)
			}
		}
	}
}

func TestWriteErrors(t *testing.T) {
	rec := recordtest.Make(reporttest.Small(recordtest.TCPLat))
	for _, opt := range []view.Options{{Format: "xml"}, {Style: "netperf"}, {Style: "qperf", Format: "csv"}} {
		if err := Write(io.Discard, rec, opt); err == nil {
			t.Errorf("%+v: no error", opt)
		}
	}
	if err := Write(io.Discard, &result.Record{}, view.Options{}); !errors.Is(err, analysis.ErrNoPlan) {
		t.Errorf("empty record: %v, want ErrNoPlan", err)
	}
	for _, f := range append(Formats(), "") {
		if err := Write(fullDisk{}, rec, view.Options{Format: f}); !errors.Is(err, errFull) {
			t.Errorf("format %q on a full disk: %v", f, err)
		}
	}
	if err := Write(fullDisk{}, rec, view.Options{Style: "qperf"}); !errors.Is(err, errFull) {
		t.Errorf("style qperf on a full disk: %v", err)
	}
}

var errFull = errors.New("no space left")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// A record that was cut anywhere after its plan still makes a report.
func TestPartialRecords(t *testing.T) {
	truth := reporttest.Small(recordtest.TCPLat, recordtest.UDPMsg)
	truth.Histograms, truth.Rounds = false, 2
	whole := recordtest.Make(truth)
	for n := range whole.Slices {
		rec := *whole
		rec.Slices, rec.Meters, rec.End = whole.Slices[:n], nil, nil
		for _, f := range append(Formats(), "") {
			err := Write(io.Discard, &rec, view.Options{Format: f})
			if f == "svg" && errors.Is(err, figure.ErrNoFigure) {
				continue // so early there is none
			}
			if err != nil {
				t.Fatalf("%d slices, format %s: %v", n, f, err)
			}
		}
	}
}

// The head says how many Services there are, and if their rules are not those
// that kube-proxy would have written.
func TestServices(t *testing.T) {
	for _, c := range []struct {
		services, rules, wrapped int
		want                     string
	}{
		{0, 0, 0, "; 0 Services run "},
		{1000, 5023, 12, "; 1000 Services run "},
		{1000, 5023, 0, "; 1000 Services (in nftables' own expressions) run "},
	} {
		rec := recordtest.Make(reporttest.Small(recordtest.TCPBw))
		rec.Plan.Services = c.services
		for i := range rec.Facts {
			rec.Facts[i].NetfilterRules, rec.Facts[i].WrappedRules = c.rules, c.wrapped
		}
		var out bytes.Buffer
		if err := Write(&out, rec, view.Options{}); err != nil {
			t.Fatal(err)
		}
		if told := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(told, c.want) {
			t.Errorf("%+v: not told:\n%s", c, &out)
		}
	}
}
