package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/report/layout"
	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/result"
)

// FuzzReport: whatever can be read, whole or cut, makes a report in every
// format without a panic, and its JSON is JSON.
func FuzzReport(f *testing.F) {
	truth := reporttest.Small(recordtest.UDPLat, recordtest.TCPBw)
	truth.Rounds, truth.Series, truth.Histograms = 2, 3, false
	truth.Arms = append(truth.Arms, recordtest.Arm{Arm: result.Arm{Name: "qperf:host", Path: "qperf"}})
	f.Add(encode(f, recordtest.Make(truth)))
	f.Add(encode(f, absurd(recordtest.Make(truth))))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, _ := result.Read(bytes.NewReader(data))
		if rec == nil || len(rec.Plan.Arms) == 0 {
			return
		}
		var out bytes.Buffer
		if err := Write(&out, rec, view.Options{Format: "json"}); err != nil {
			t.Fatal(err)
		}
		if !json.Valid(out.Bytes()) {
			t.Fatal("the JSON report is not JSON")
		}
		for _, opt := range []view.Options{{Width: 60}, {Format: "md"}, {Format: "html"}, {Format: "csv"}, {Format: "benchstat"}, {Style: "qperf"}} {
			if err := Write(io.Discard, rec, opt); err != nil {
				t.Fatal(err)
			}
		}
		tables := layout.Layout{Tables: []layout.Table{{Rows: []layout.Axis{layout.ByPath, layout.BySize}, Columns: []layout.Axis{layout.ByLoad}, Baseline: "vxlan", Paths: []string{"host", "routed", "vxlan"}}}}
		for _, c := range rec.Plan.Cells {
			f := layout.Figure{Load: c.Load, Sizes: []int{c.Size}, Flows: []int{c.Flows}, Unit: layout.Units(c.Metric)[0]}
			tables.Tables[0].Figures = append(tables.Tables[0].Figures, f)
		}
		out.Reset()
		if err := layout.Write(&out, []layout.Wired{{Record: rec}}, tables, view.Options{Format: "json"}); err == nil && !json.Valid(out.Bytes()) {
			t.Fatal("the JSON of the tables is not JSON")
		}
		for _, format := range []string{"table", "md"} {
			if err := layout.Write(io.Discard, []layout.Wired{{Record: rec}}, tables, view.Options{Format: format}); err != nil && !errors.Is(err, layout.ErrOtherRecord) {
				t.Fatal(err)
			}
		}
	})
}

// absurd sets every number to the edge of what the format allows.
func absurd(rec *result.Record) *result.Record {
	const huge = math.MaxInt64
	for i := range rec.Plan.Arms {
		rec.Plan.Arms[i].MTU = 28
	}
	for i := range rec.Plan.Cells {
		rec.Plan.Cells[i].Size, rec.Plan.Cells[i].Slice = 1<<39, huge
	}
	for i := range rec.Slices {
		s := &rec.Slices[i]
		s.Elapsed, s.Start = huge, math.MinInt64
		if s.Round == 0 {
			s.Elapsed = 0
		}
		if s.Latency != nil {
			*s.Latency = result.Latency{Requests: huge, Replies: 1 + huge*int64(s.Round), Lost: huge, Late: huge, RTTSum: huge, HeadReplies: huge}
			s.Latency.Replies &= huge
		}
		if s.Stream != nil {
			*s.Stream = result.Stream{SentMessages: huge, SentBytes: huge, SendNs: 1, RecvMessages: 1, RecvBytes: huge,
				RateMessages: huge, RateBytes: huge, RateNs: 1 + int64(s.Series), Packets: huge, Retransmits: huge}
		}
	}
	for i := range rec.Meters {
		for k := range rec.Meters[i].Values {
			rec.Meters[i].Values[k] = huge - int64(i%3)*huge
		}
	}
	return rec
}

func encode(f *testing.F, rec *result.Record) []byte {
	f.Helper()
	var text bytes.Buffer
	w := result.NewWriter(&text)
	for _, l := range recordtest.Lines(rec) {
		if err := w.Write(l); err != nil {
			f.Fatal(err)
		}
	}
	return text.Bytes()
}
