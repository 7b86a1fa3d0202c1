package result_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/result"
)

// long is a record of more slices than are kept one by one.
func long() *result.Record {
	return recordtest.Make(recordtest.Truth{Seed: 3, Series: 6, Rounds: 2500, Noise: recordtest.Quiet,
		Cells: []result.Cell{recordtest.UDPLat, recordtest.UDPMsg},
		Arms:  []recordtest.Arm{recordtest.Host(), recordtest.Copy(), recordtest.Path("vxlan", 1.3)}})
}

// totals are sums that merging must not change.
func totals(rec *result.Record) map[string]int64 {
	out := map[string]int64{}
	for _, s := range rec.Slices {
		of := s.Cell + " " + s.Arm
		out[of+" elapsed"] += s.Elapsed
		if l := s.Latency; l != nil {
			out[of+" requests"] += l.Requests
			out[of+" replies"] += l.Replies
			out[of+" lost"] += l.Lost
			out[of+" rtt"] += l.RTTSum
		}
		if t := s.Stream; t != nil {
			out[of+" sent"] += t.SentMessages
			out[of+" received"] += t.RecvMessages
			out[of+" rate"] += t.RateBytes
			out[of+" ns"] += t.RateNs
		}
	}
	return out
}

// A long record is merged as it is read: its sums stay, and so do its ratios. So it is
// with a record that is cut.
func TestMerged(t *testing.T) {
	all := long()
	text := encode(t, all)
	for name, part := range map[string][]byte{"whole": text, "cut": text[:len(text)*9/10]} {
		got, err := result.Read(bytes.NewReader(part))
		want := *all
		if name == "cut" {
			if !errors.Is(err, result.ErrTruncated) {
				t.Fatalf("cut: %v", err)
			}
			n := got.Merged.Slices
			want.Slices = want.Slices[:n]
		} else if err != nil {
			t.Fatal(err)
		}
		if m := got.Merged; m.Rounds != 2 || m.Slices != len(want.Slices) || m.Failed != 0 {
			t.Errorf("%s: merged %+v of %d slices", name, m, len(want.Slices))
		}
		if len(got.Slices) > 3<<14 {
			t.Errorf("%s: %d slices are kept", name, len(got.Slices))
		}
		if a, b := fmt.Sprint(totals(got)), fmt.Sprint(totals(&want)); a != b {
			t.Errorf("%s: sums are\n%s, want\n%s", name, a, b)
		}
		ratios := func(rec *result.Record) (all []float64) {
			s, err := analysis.Analyze(rec, analysis.Options{Live: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range s.Cells {
				all = append(all, c.Row("vxlan").Ratio.Value)
			}
			return all
		}
		full := ratios(&want)
		for i, r := range ratios(got) {
			if math.Abs(r/full[i]-1) > 0.002 {
				t.Errorf("%s: ratio %.4f, and %.4f of all slices", name, r, full[i])
			}
		}
	}
}

// Of merged slices the first histograms that there are stay, byte for byte.
func TestMergedHistograms(t *testing.T) {
	rec := long()
	type slot struct {
		cell, arm     string
		series, round int
	}
	first := map[slot]*result.Latency{}
	for i := range rec.Slices {
		s := &rec.Slices[i]
		if s.Round%6 == 4 {
			s.Failed, s.Latency, s.Stream = "no reply", nil, nil
		}
		l := s.Latency
		if l == nil {
			continue
		}
		at := slot{s.Cell, s.Arm, s.Series, s.Round / 2}
		if first[at] == nil {
			first[at] = &result.Latency{}
		}
		if s.Round%4 != 0 {
			l.RTT = fmt.Appendf(nil, "times %s %d %d", s.Arm, s.Series, s.Round)
		}
		if s.Round%8 != 2 {
			l.Lateness = fmt.Appendf(nil, "late %d", s.Round)
		}
		if f := first[at]; len(f.RTT) == 0 {
			f.RTT = l.RTT
		}
		if f := first[at]; len(f.Lateness) == 0 {
			f.Lateness = l.Lateness
		}
	}
	got, err := result.Read(bytes.NewReader(encode(t, rec)))
	if err != nil || got.Merged.Rounds != 2 {
		t.Fatal(got.Merged, err)
	}
	seen := 0
	for _, s := range got.Slices {
		want := first[slot{s.Cell, s.Arm, s.Series, s.Round}]
		if s.Latency == nil || want == nil {
			continue
		}
		seen++
		if !bytes.Equal(s.Latency.RTT, want.RTT) || !bytes.Equal(s.Latency.Lateness, want.Lateness) {
			t.Fatalf("%s of %s, series %d round %d: histograms %q and %q, want %q and %q", s.Cell, s.Arm, s.Series, s.Round,
				s.Latency.RTT, s.Latency.Lateness, want.RTT, want.Lateness)
		}
	}
	if seen != len(first) {
		t.Errorf("%d slices with latencies, want %d", seen, len(first))
	}
}

// Slices without a figure are counted when they are merged with others.
func TestMergedFailures(t *testing.T) {
	rec := long()
	failed := 0
	for i := range rec.Slices {
		if s := &rec.Slices[i]; s.Arm == "vxlan" && (s.Round%10 == 3 || s.Series == 5) {
			s.Failed, s.Latency, s.Stream = "no reply", nil, nil
			if s.Series != 5 {
				failed++
			}
		}
	}
	got, err := result.Read(bytes.NewReader(encode(t, rec)))
	if err != nil {
		t.Fatal(err)
	}
	if got.Merged.Failed != failed {
		t.Errorf("%d slices without a figure are told of, of %d", got.Merged.Failed, failed)
	}
	s, err := analysis.Analyze(got, analysis.Options{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := analysis.Analyze(rec, analysis.Options{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range s.Cells {
		r, want := c.Row("vxlan"), whole.Cells[i].Row("vxlan")
		if want.NoFigure == 0 || r.NoFigure != want.NoFigure || r.Slices != want.Slices || r.Blank() != want.Blank() {
			t.Errorf("%s: of %d slices %d have no figure, want %d and %d", c.Cell.Name, r.Slices, r.NoFigure, want.Slices, want.NoFigure)
		}
	}
	for _, s := range got.Slices {
		if s.Failed != "" && (s.Arm != "vxlan" || s.Series != 5) {
			t.Fatalf("%s has no figure in series %d", s.Arm, s.Series)
		}
	}
}
