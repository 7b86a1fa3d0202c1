package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/result"
)

func TestUnits(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{duration(812), "812 ns"}, {duration(8410), "8.41 us"}, {duration(999.6), "1.00 us"},
		{duration(16_800), "16.8 us"}, {duration(2.5e9), "2.50 s"}, {duration(0.5), "0.500 ns"},
		{bits(31.24e9), "31.2 Gb/s"}, {bits(999.96e6), "1.00 Gb/s"}, {bits(500), "500 b/s"},
		{rate(1.234e6, "msg"), "1.23 M msg/s"}, {count(9999), "9999"}, {count(1_200_000), "1.20 M"},
		{sig3(9.996), "10.0"}, {sig3(99.96), "100"}, {sig3(1234), "1230"}, {sig3(0), "0"}, {sig3(-8.414), "-8.41"},
		{percent(0.008), "0.8 %"}, {percent(0.37), "37 %"}, {percent(0.00012), "0.012 %"}, {percent(0), "0 %"}, {percent(0.0996), "10 %"},
		{change(1.37), "+37 %"}, {change(0.48), "-52 %"}, {change(1.0001), "0 %"}, {change(1.082), "+8.2 %"}, {change(12.3), "x 12.3"},
		{ratio(1.0824), "1.082"}, {ratio(12.34), "12.3"}, {ratio(0.01234), "0.0123"},
		{bytesSize(1), "1 B"}, {bytesSize(65536), "64 KiB"}, {bytesSize(1000), "1000 B"}, {bytesSize(1 << 20), "1 MiB"},
		{setting(0.03), "3 %"}, {setting(0.975), "97.5 %"}, {setting(0.95), "95 %"},
		{took(1500 * time.Millisecond), "1.5s"}, {took(78 * time.Second), "1m18s"},
		{qperfSize(65536), "64 KiB (65,536)"}, {qperfSize(1), "1 bytes"}, {qperfSize(1500), "1,500 bytes"},
		{qperfSize(1000), "1 KB"}, {qperfBits(31.24e9), "31.2 Gb/sec"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}

// Benchstat's own parser must take every line, and know which way is better.
func TestBenchstatParses(t *testing.T) {
	var out bytes.Buffer
	rec := recordtest.Make(small(recordtest.TCPLat, recordtest.TCPBw))
	if err := Write(&out, rec, Options{Format: "benchstat"}); err != nil {
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

func TestCSVAndJSONParse(t *testing.T) {
	rec := recordtest.Make(small(recordtest.TCPLat, recordtest.UDPMsg))
	var out bytes.Buffer
	if err := Write(&out, rec, Options{Format: "csv"}); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != 1+2*4 {
		t.Fatalf("%d rows, %v; want a heading and four rows for each of two loads", len(rows), err)
	}
	out.Reset()
	if err := Write(&out, rec, Options{Format: "json"}); err != nil {
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
	rec := recordtest.Make(small(recordtest.UDPMsg))
	for i := range rec.Slices {
		rec.Slices[i].Stream.SendNs *= 2 // a sender that was slow to start
	}
	var out bytes.Buffer
	if err := Write(&out, rec, Options{Style: "qperf"}); err != nil {
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
	rec := usualRecord()
	for _, width := range []int{80, 100, 120, 200} {
		var out bytes.Buffer
		if err := Write(&out, rec, Options{Width: width}); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(out.String(), "\n") {
			// A block's heading may be longer: it is one sentence.
			if n := cells.StringWidth(line); n > width && !strings.Contains(line, "noise floor ±") {
				t.Errorf("width %d: line of %d columns: %q", width, n, line)
			}
		}
	}
}

func TestWriteErrors(t *testing.T) {
	rec := recordtest.Make(small(recordtest.TCPLat))
	for _, opt := range []Options{{Format: "xml"}, {Style: "netperf"}, {Style: "qperf", Format: "csv"}} {
		if err := Write(io.Discard, rec, opt); err == nil {
			t.Errorf("%+v: no error", opt)
		}
	}
	if err := Write(io.Discard, &result.Record{}, Options{}); !errors.Is(err, analysis.ErrNoPlan) {
		t.Errorf("empty record: %v, want ErrNoPlan", err)
	}
	for _, f := range append(Formats(), "") {
		if err := Write(fullDisk{}, rec, Options{Format: f}); !errors.Is(err, errFull) {
			t.Errorf("format %q on a full disk: %v", f, err)
		}
	}
	if err := Write(fullDisk{}, rec, Options{Style: "qperf"}); !errors.Is(err, errFull) {
		t.Errorf("style qperf on a full disk: %v", err)
	}
}

var errFull = errors.New("no space left")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// A record that was cut anywhere after its plan still makes a report.
func TestPartialRecords(t *testing.T) {
	truth := small(recordtest.TCPLat, recordtest.UDPMsg)
	truth.Histograms, truth.Rounds = false, 2
	whole := recordtest.Make(truth)
	for n := range whole.Slices {
		rec := *whole
		rec.Slices, rec.Meters, rec.End = whole.Slices[:n], nil, nil
		for _, f := range append(Formats(), "") {
			err := Write(io.Discard, &rec, Options{Format: f})
			if f == "svg" && errors.Is(err, ErrNoFigure) {
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
		rec := oneCell()
		rec.Plan.Services = c.services
		for i := range rec.Facts {
			rec.Facts[i].NetfilterRules, rec.Facts[i].WrappedRules = c.rules, c.wrapped
		}
		var out bytes.Buffer
		if err := Write(&out, rec, Options{}); err != nil {
			t.Fatal(err)
		}
		if told := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(told, c.want) {
			t.Errorf("%+v: not told:\n%s", c, &out)
		}
	}
}
