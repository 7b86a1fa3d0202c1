package layout

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/result"
)

// limitedTable shows round trips on a schedule, idle and beside a stream, and streams with a rate.
func limitedTable() Layout {
	one, beside := []int{1}, recordtest.Background
	return Layout{Name: "limited", Title: "Latency and CPU", Tables: []Table{{
		Title: "By wire", Rows: []Axis{ByPath, ByWire}, Columns: []Axis{ByLoad}, Paths: []string{"host", "vxlan"}, Wires: []string{"one-core", "all-cores"},
		Figures: []Figure{
			{Name: "idle", Load: "ping", Sizes: []int{56}, Flows: one, Rate: recordtest.Ping.Rate, Unit: "us"},
			{Name: "beside packets", Load: "ping", Sizes: []int{56}, Flows: one, Rate: beside.Rate, Background: beside.Background, Unit: "us"},
			{Name: "CPU at 2 Gb/s", Load: "tcp_bw", Sizes: []int{64 << 10}, Flows: one, Rate: recordtest.TCPAt.Rate, Unit: "s/GB"},
			{Name: "CPU at 1 Gb/s", Load: "tcp_bw", Sizes: []int{64 << 10}, Flows: one, Rate: 1e9, Unit: "s/GB"},
		},
	}}}
}

// limited is the record of a wire on which a path loses requests and does not hold a rate, its
// client is late, and a thread and a core are full.
func limited() *result.Record {
	rec := limitedRecord(0.02, 400)
	recordtest.AddThreads(rec, "vxlan", 0.97)
	for i := range rec.Slices {
		s := &rec.Slices[i]
		if s.Arm == "vxlan" && s.Latency != nil && s.Round == 0 {
			s.Latency.Lost, s.Latency.Late, s.Latency.Missed = 40, 3, 2
		}
	}
	for i := range rec.Meters {
		m := &rec.Meters[i]
		if m.Arm == "vxlan" && m.Cell == recordtest.Background.Name && m.Name == "cpu" {
			m.Values["cpu0/busy"] = m.WallNs
		}
	}
	return rec
}

// healthy loses nothing: its host network misses a slot, and is in time otherwise.
func healthy() *result.Record {
	rec := limitedRecord(0, 0)
	rec.Slices[slices.IndexFunc(rec.Slices, func(s result.Slice) bool { return s.Arm == "host" && s.Latency != nil })].Latency.Missed = 1
	return rec
}

func limitedRecord(loss, late float64) *result.Record {
	truth := reporttest.Small(recordtest.Ping, recordtest.Background, recordtest.TCPAt)
	truth.Arms[3].Loss, truth.Arms[3].Late = loss, late
	return recordtest.Make(truth)
}

// The tables say on which wire requests were lost, a schedule or a rate was not held, and a
// thread or core was full.
func TestLimits(t *testing.T) {
	recs := []Wired{{"one-core", limited()}, {"all-cores", healthy()}}
	for name, format := range map[string]string{"layout-limits.table": "table", "layout-limits.md": "md"} {
		var got bytes.Buffer
		if err := Write(&got, recs, limitedTable(), view.Options{Format: format}); err != nil {
			t.Fatal(err)
		}
		reporttest.Golden(t, name, got.Bytes())
	}
	var out bytes.Buffer
	if err := Write(&out, recs, limitedTable(), view.Options{Format: "json"}); err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	legend := strings.Join(d.Legend, "\n")
	if want := "all-cores: ping 56 B, 1k/s: requests missed their slot in the schedule and left only when the next was due: host (1 of "; !strings.Contains(legend, want) {
		t.Errorf("%q is missing in:\n%s", want, legend)
	}
	for _, want := range []string{
		"requests had no reply in time", "the schedule was not kept within 20.0 us", "the rate of 2G/s was not held", "the background stream did not hold its rate", "cores were full", "threads were full",
	} {
		for _, line := range d.Legend {
			if strings.Contains(line, want) && !strings.HasPrefix(line, "one-core: ") {
				t.Errorf("%q is said of another wire: %s", want, line)
			}
		}
		if !strings.Contains(legend, want) {
			t.Errorf("%q is missing in:\n%s", want, legend)
		}
	}
	missed, absent := d.Tables[0].Cells[2][2], d.Tables[0].Cells[2][3]
	if !missed.NotHeld || missed.Missing != "rate not held" || absent.NotHeld || absent.Missing != "not measured" {
		t.Errorf("without a figure: %+v, %+v", missed, absent)
	}
}

// What is so in many loads is said once.
func TestLimitsAreMerged(t *testing.T) {
	truth := overlaysTruth()
	rec := recordtest.Make(truth)
	recordtest.AddThreads(rec, "ovs", 0.97)
	var out bytes.Buffer
	if err := Write(&out, []Wired{{Record: rec}}, twoTables(), view.Options{Format: "md"}); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(out.String(), view.NoBreak, " ")
	const want = `- tcp\_bw 64 KiB; tcp\_bw 8 B; tcp\_bw 16 B; tcp\_bw 32 B; 28 more: threads were full, and may limit the path: ovs (ksoftirqd/1).`
	if n := strings.Count(text, "ksoftirqd"); n != 1 || !strings.Contains(text, want) {
		t.Errorf("%d lines name the thread, want one:\n%s", n, text)
	}
}
