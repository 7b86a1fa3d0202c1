package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/testenv/plain"
	"github.com/venturi-net/venturi/result"
)

// What a record of ten million slices may take.
const (
	largeSlices = 10_000_000
	mostSeconds = 10
	mostMemory  = 300 // MB
)

// largeRecord writes a record of many slices as it is read. Its slices are those of a small
// record again and again, with their histograms.
type largeRecord struct {
	head, end []byte
	before    [][]byte // of a slice's line, what is before its series
	after     [][]byte // and behind its round
	perSeries int
	total     int
	lines     int
	rounds    int
	pending   []byte
}

func newLargeRecord(total int) *largeRecord {
	truth := recordtest.Truth{Seed: 5, Series: 1, Rounds: 40, Margin: 0.03, Noise: recordtest.Quiet, Histograms: true,
		Cells: []result.Cell{recordtest.UDPLat, recordtest.TCPBw},
		Arms:  []recordtest.Arm{recordtest.Host(), recordtest.Copy(), recordtest.Path("routed", 1.08), recordtest.Path("vxlan", 1.37)}}
	rec := recordtest.Make(truth)
	out := &largeRecord{total: total, perSeries: total / 10}
	out.rounds = out.perSeries/(len(truth.Cells)*len(truth.Arms)) + 1
	rec.Plan.Series, rec.Plan.Rounds = 10, out.rounds
	rec.End.Slices, rec.End.Series = total, 10
	for _, l := range recordtest.Lines(rec) {
		text, err := json.Marshal(l)
		if err != nil {
			panic(err)
		}
		text = append(text, '\n')
		switch {
		case l.Slice != nil:
			series, rest, _ := bytes.Cut(text, []byte(`"series":0,"round":`))
			rest = rest[bytes.IndexByte(rest, ','):]
			out.before, out.after = append(out.before, append(series, `"series":`...)), append(out.after, rest)
		case l.End != nil:
			out.end = text
		case l.Meter == nil:
			out.head = append(out.head, text...)
		}
	}
	out.pending = out.head
	return out
}

func (r *largeRecord) Read(to []byte) (int, error) {
	for len(r.pending) < len(to) && r.lines < r.total {
		arms := 4
		n := len(r.before) / 2 // slices of a cell
		series, at := r.lines/r.perSeries, r.lines%r.perSeries
		cell, of := at/(r.rounds*arms), at%(r.rounds*arms)
		if cell > 1 {
			cell = 1
		}
		line := cell*n + of%n
		r.pending = append(r.pending, r.before[line]...)
		r.pending = strconv.AppendInt(r.pending, int64(series), 10)
		r.pending = append(r.pending, `,"round":`...)
		r.pending = strconv.AppendInt(r.pending, int64(of/arms), 10)
		r.pending = append(r.pending, r.after[line]...)
		if r.lines++; r.lines == r.total {
			r.pending = append(r.pending, r.end...)
		}
	}
	if len(r.pending) == 0 {
		return 0, io.EOF
	}
	n := copy(to, r.pending)
	r.pending = r.pending[:copy(r.pending, r.pending[n:])]
	return n, nil
}

// BenchmarkLarge reports a record of ten million slices, and one that is cut before its
// end, in 10 s and 300 MB. The time contains that of making the record.
func BenchmarkLarge(b *testing.B) {
	for _, limit := range []int64{0, 1 << 30} {
		b.Run([]string{"whole", "cut"}[min(limit, 1)], func(b *testing.B) {
			for b.Loop() {
				resetPeak(b)
				var in io.Reader = newLargeRecord(largeSlices)
				if limit > 0 {
					in = io.LimitReader(in, limit)
				}
				rec, err := result.Read(in)
				if err != nil && (limit == 0 || !errors.Is(err, result.ErrTruncated)) {
					b.Fatal(err)
				}
				slices := rec.Merged.Slices
				if err := Write(io.Discard, rec, view.Options{Format: "html"}); err != nil {
					b.Fatal(err)
				}
				peak := peakMemory(b)
				b.ReportMetric(float64(slices), "slices")
				b.ReportMetric(peak, "peak-MB")
				if peak > mostMemory {
					b.Errorf("it took %.0f MB, at most %d", peak, mostMemory)
				}
			}
			if took := b.Elapsed().Seconds() / float64(b.N); took > mostSeconds {
				b.Errorf("it took %.1f s, at most %d", took, mostSeconds)
			}
		})
	}
}

// A report of a long record says that its rounds are merged.
func TestLargeReport(t *testing.T) {
	plain.SkipShort(t)
	rec, err := result.Read(newLargeRecord(70_000))
	if err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]string{
		"table": "The record has 70000 slices. To fit in memory, up to 2 rounds are merged",
		"md":    "The record has 70000 slices. To fit in memory, up to 2 rounds are merged",
		"html":  "The record has 70000 slices. To fit in memory, up to 2 rounds are merged",
		"json":  `"merged": { "rounds": 2, "slices": 70000 }`,
	} {
		var out bytes.Buffer
		if err := Write(&out, rec, view.Options{Format: format}); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(text, want) {
			t.Errorf("%s does not tell that rounds are merged", format)
		}
	}
}

// resetPeak makes the kernel forget the process' peak of memory.
func resetPeak(b *testing.B) {
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		b.Fatal(err)
	}
}

// peakMemory is the most memory that the process has had, MB.
func peakMemory(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kB float64
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		b.Fatal(err)
	}
	return kB / 1000
}
