package report

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/report/layout"
	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/result"
)

// carried has two paths with a fast path: one that carries, but not where
// connections are opened all the time, and one that nobody has switched on.
func carried() *result.Record {
	t := reporttest.Small(recordtest.UDPLat, recordtest.TCPMsg)
	t.Histograms, t.Meters = false, false
	t.Arms[2].Name, t.Arms[3].Name = "vxlan+fast", "routed+fast"
	t.Arms[2].Path, t.Arms[3].Path = "vxlan+fast", "routed+fast"
	rec := recordtest.Make(t)
	for series := range rec.Plan.Series {
		for _, machine := range []string{"a", "b"} {
			add := func(cell, arm string, values map[string]int64) {
				rec.Meters = append(rec.Meters, result.Meter{Cell: cell, Arm: arm, Series: series, Machine: machine,
					Name: "accel", WallNs: 1e9, Values: values, Resolution: "packets"})
			}
			add("udp_lat/1", "vxlan+fast", map[string]int64{"accel/carried_out": 50_000, "accel/carried_in": 49_990,
				"accel/slow_unknown_out": 5, "accel/slow_unknown_in": 3, "accel/slow_stale_out": 2, "accel/slow_stale_in": 0, "accel/slow_ttl_out": 0, "accel/flows": 1})
			// Older records do not say which way slow packets went.
			add("tcp_bw/1", "vxlan+fast", map[string]int64{"accel/carried_out": 300, "accel/carried_in": 200,
				"accel/slow_flags": 1200, "accel/slow_unknown": 800, "accel/slow_of_tomorrow": 1, "accel/flows": int64(series)})
			add("udp_lat/1", "routed+fast", map[string]int64{"accel/slow_no_daemon": 40_000, "accel/flows": 0})
			add("tcp_bw/1", "routed+fast", map[string]int64{"accel/carried_out": 0, "accel/flows": 0})
		}
	}
	rec.Warnings = append(rec.Warnings, result.Warning{Code: "fast-path-off", Arm: "routed+fast",
		Text: "its fast path carried nothing when the run ended: on m1 iptables-legacy has rules (filter), and tells nobody when they change"})
	return rec
}

// carriedLayout is a table of the same.
func carriedLayout() layout.Layout {
	return layout.Layout{Name: "tuning", Title: "Tunings", Tables: []layout.Table{{
		Title: "Messages of one byte", Rows: []layout.Axis{layout.ByPath}, Columns: []layout.Axis{layout.ByLoad}, Paths: []string{"host", "vxlan+fast", "routed+fast"},
		Figures: []layout.Figure{{Load: "udp_lat", Sizes: []int{1}, Flows: []int{1}, Unit: "us"}},
	}}}
}

func TestFastPathGolden(t *testing.T) {
	for name, opt := range map[string]view.Options{
		"fast.table":       {},
		"fast-stats.table": {FastPathStats: true},
		"fast-stats.md":    {FastPathStats: true, Format: "md"},
		"fast.csv":         {Format: "csv"},
	} {
		var got bytes.Buffer
		if err := Write(&got, carried(), opt); err != nil {
			t.Fatal(err)
		}
		reporttest.Golden(t, name, got.Bytes())
		if opt.Format == "csv" {
			continue // tables of studies have no such format
		}
		got.Reset()
		if err := layout.Write(&got, []layout.Wired{{Record: carried()}}, carriedLayout(), opt); err != nil {
			t.Fatal(err)
		}
		reporttest.Golden(t, "layout-"+name, got.Bytes())
	}
}

// Programs get what became of packets whether they ask or not.
func TestFastPathJSON(t *testing.T) {
	type fast struct {
		Packets map[string]int64
		Carried float64
		Flows   int64
	}
	var doc struct {
		Summary struct {
			Cells []struct {
				Rows []struct {
					FastPath *fast `json:"fast_path"`
					Counters map[string]int64
				}
			}
		}
		FastPaths []struct {
			Path, Load string
			FastPath   *fast `json:"fast_path"`
		} `json:"fast_paths"`
	}
	var out bytes.Buffer
	if err := Write(&out, carried(), view.Options{Format: "json"}); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	rows := doc.Summary.Cells[0].Rows
	got := rows[1].FastPath
	if rows[0].FastPath != nil || got == nil || got.Packets["carried_out"] != 600_000 || got.Flows != 1 || got.Carried < 0.9998 || len(rows[1].Counters) > 0 {
		t.Errorf("%+v", rows)
	}
	out.Reset()
	if err := layout.Write(&out, []layout.Wired{{Record: carried()}}, carriedLayout(), view.Options{Format: "json"}); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.FastPaths) != 4 || doc.FastPaths[0].Path != "vxlan+fast" || doc.FastPaths[0].FastPath.Packets["slow_stale"] != 24 {
		t.Errorf("%+v", doc.FastPaths)
	}
}

// Who asks for what a record does not have is told so.
func TestNoFastPath(t *testing.T) {
	var out bytes.Buffer
	truth := reporttest.Small(recordtest.TCPLat)
	truth.Histograms = false
	if err := Write(&out, recordtest.Make(truth), view.Options{FastPathStats: true}); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(text, view.NoFastPath) {
		t.Errorf("nothing says so:\n%s", text)
	}
}

// Every count of the programs has words of its own here, and its line in the docs.
func TestOutcomes(t *testing.T) {
	docs, err := os.ReadFile("../../docs/fast-path.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range view.Outcomes {
		known[f.Key] = true
		if !strings.Contains(string(docs), "| "+f.Text+" |") {
			t.Errorf("docs/fast-path.md has no line for %q", f.Text)
		}
	}
	var all analysis.FastPath
	for c := range bpf.Counts {
		all.Add(fastpath.Stat{Count: c}.Key(), 1)
		all.Add(fastpath.Stat{Count: c, IPv6: true}.Key(), 1)
	}
	for key := range all.Packets {
		if !known[key] {
			t.Errorf("the report has no words for %s", key)
		}
	}
	if len(known) != len(all.Packets) {
		t.Errorf("the report knows %d outcomes, the programs %d", len(known), len(all.Packets))
	}
}
