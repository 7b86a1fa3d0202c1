package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/testenv/plain"
	"github.com/venturi-net/venturi/result"
)

// sixteen are the sizes of qperf's 8:256K:*2.
func sixteen() (all []int) {
	for n := 8; n <= 256<<10; n *= 2 {
		all = append(all, n)
	}
	return all
}

// overlaysTruth is what the first study measures: two paths beside the host
// network, streams and round trips at many sizes.
func overlaysTruth() recordtest.Truth {
	t := reporttest.Usual()
	t.Histograms, t.Meters, t.Rounds, t.Cells = false, false, 8, nil
	t.Arms = []recordtest.Arm{recordtest.Host(), recordtest.Copy(), recordtest.Path("bgp", 1.2), recordtest.Path("ovs", 2.4)}
	for _, size := range sixteen() {
		bw, lat := recordtest.TCPBw, recordtest.TCPLat
		if size < 64 {
			bw = recordtest.TCPMsg
		}
		bw.Size, bw.Name = size, fmt.Sprintf("tcp_bw/%d", size)
		lat.Size, lat.Name = size, fmt.Sprintf("tcp_lat/%d", size)
		t.Cells = append(t.Cells, bw, lat)
	}
	return t
}

func overlays() *result.Record {
	rec := recordtest.Make(overlaysTruth())
	for i := range rec.Slices {
		if s := &rec.Slices[i]; s.Stream != nil && s.Arm == "ovs" {
			s.Stream.Retransmits = int64(s.Round % 3)
		}
	}
	return rec
}

// tunnelled has a path of five tunnels.
func tunnelled() *result.Record {
	rec := overlays()
	rec.Plan.Arms[3].Pairs = 5
	return rec
}

// similarPathsRecord has two paths that hardly differ, on a noisy machine.
func similarPathsRecord() *result.Record {
	t := overlaysTruth()
	t.Noise.Socket, t.Noise.Slice = 0.01, 0.03
	t.Arms[2].Factor, t.Arms[3].Factor = 1.01, 1.03
	return recordtest.Make(t)
}

// odd has a path that fails, a copy that differs, and one load less.
func odd() *result.Record {
	t := overlaysTruth()
	t.Cells = t.Cells[:len(t.Cells)-1]
	t.Arms[1].Factor = 1.1
	t.Arms[2].Fails = "connect 10.0.2.2:20000: connection refused"
	rec := recordtest.Make(t)
	rec.Warnings = append(rec.Warnings, result.Warning{Code: "arm-failed", Arm: "bgp", Text: "left out after 3 failures"})
	return rec
}

// lossy has a path through which too little comes in every other slice, at one
// size, and with which it happened once at another.
func lossy() *result.Record {
	rec := overlays()
	for i := range rec.Slices {
		s := &rec.Slices[i]
		if s.Arm == "ovs" && (s.Cell == "tcp_lat/16384" && s.Round%2 == 0 || s.Cell == "tcp_lat/8" && s.Series+s.Round == 0) {
			s.Latency = &result.Latency{Requests: 1, Lost: 1}
		}
	}
	return rec
}

// twoTables is the layout of the first study.
func twoTables() Layout {
	paths := []string{"ovs", "bgp", "host"}
	one := []int{1}
	return Layout{
		Name: "calico-bgp-vs-ovs", Title: "Routed pods against an overlay", Question: "Is a routed path faster than an overlay?",
		Tables: []Table{
			{Title: "One stream", Rows: []Axis{ByPath}, Columns: []Axis{ByLoad}, Paths: paths, Baseline: "ovs", Figures: []Figure{
				{Load: "tcp_bw", Sizes: []int{64 << 10}, Flows: one, Unit: "Gb/s"},
				{Load: "tcp_bw", Sizes: []int{64 << 10}, Flows: one, Retransmits: true, Name: "retransmits"},
			}},
			{Title: "By message size", Rows: []Axis{ByLoad, ByPath}, Columns: []Axis{BySize}, Paths: paths, Baseline: "ovs", Figures: []Figure{
				{Load: "tcp_bw", Name: "bw", Sizes: sixteen(), Flows: one, Unit: "MB/s"},
				{Load: "tcp_lat", Name: "lat", Sizes: sixteen(), Flows: one, Unit: "us"},
			}},
		},
	}
}

// oneCell is a short record, and oneTable shows it.
func oneCell() *result.Record {
	t := overlaysTruth()
	t.Cells = []result.Cell{recordtest.TCPBw}
	return recordtest.Make(t)
}

// emulatedOVS has it in a machine that is emulated, on one that is none.
func emulatedOVS() *result.Record {
	rec := oneCell()
	rec.Plan.Arms[3].Emulated = true
	return rec
}

func oneTable() Layout {
	l := twoTables()
	l.Tables = l.Tables[:1]
	return l
}

// byPath has the loads in its columns, as tables of qperf runs have.
func byPath() Layout {
	l := twoTables()
	l.Tables = []Table{{Title: "qperf", Rows: []Axis{BySize, ByPath}, Columns: []Axis{ByLoad, ByFlows}, Paths: []string{"host", "ovs"}, Figures: []Figure{
		{Load: "tcp_lat", Sizes: []int{1024, 4096}, Flows: []int{1}, Unit: "us"},
		{Load: "tcp_bw", Sizes: []int{1024, 4096}, Flows: []int{1, 8}, Unit: "Gb/s"},
	}}}
	return l
}

// oneFigure has the load on neither side.
func oneFigure() Layout {
	l := twoTables()
	l.Tables = []Table{
		{Title: "Round trips", Rows: []Axis{ByPath}, Columns: []Axis{BySize}, Paths: []string{"host", "ovs"}, Figures: []Figure{
			{Load: "tcp_lat", Sizes: []int{1024, 4096}, Flows: []int{1}, Unit: "us"},
		}},
		{Rows: []Axis{ByPath}, Paths: []string{"host", "ovs"}, Figures: []Figure{
			{Load: "tcp_bw", Sizes: []int{65536}, Flows: []int{1}, Retransmits: true},
		}},
	}
	return l
}

func TestLayoutGolden(t *testing.T) {
	for _, s := range []struct {
		name   string
		make   func() *result.Record
		layout func() Layout
		opt    view.Options
	}{
		{"layout.table", overlays, twoTables, view.Options{}},
		{"layout-80.table", overlays, twoTables, view.Options{Width: 80}},
		{"layout-200.table", overlays, twoTables, view.Options{Width: 200}},
		{"layout.md", overlays, twoTables, view.Options{Format: "md"}},
		{"layout-alike.table", similarPathsRecord, twoTables, view.Options{}},
		{"layout-odd.table", odd, twoTables, view.Options{}},
		{"layout-lossy.table", lossy, twoTables, view.Options{}},
		{"layout-bypath.table", overlays, byPath, view.Options{}},
		{"layout-figure.table", tunnelled, oneFigure, view.Options{}},
		{"layout-figure.md", overlays, oneFigure, view.Options{Format: "md"}},
		{"layout-emulated.table", func() *result.Record { return reporttest.Emulate(oneCell()) }, oneTable, view.Options{}},
		{"layout-emulated.json", func() *result.Record { return reporttest.Emulate(oneCell()) }, oneTable, view.Options{Format: "json"}},
		{"layout-emulated-arm.table", emulatedOVS, oneTable, view.Options{}},
		{"layout-emulated-arm.md", emulatedOVS, oneTable, view.Options{Format: "md"}},
		{"layout-emulated-arm.json", emulatedOVS, oneTable, view.Options{Format: "json"}},
		{"layout.json", oneCell, oneTable, view.Options{Format: "json"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			var got bytes.Buffer
			if err := Write(&got, []Wired{{Record: s.make()}}, s.layout(), s.opt); err != nil {
				t.Fatal(err)
			}
			reporttest.Golden(t, s.name, got.Bytes())
		})
	}
}

// What a run that stops when it is decided says of its family is what its correction promises.
func TestLayoutUntilDecided(t *testing.T) {
	truth := overlaysTruth()
	truth.Series = 10
	rec := recordtest.Make(truth)
	rec.Plan.UntilDecided = true
	var got bytes.Buffer
	if err := Write(&got, []Wired{{Record: rec}}, twoTables(), view.Options{}); err != nil {
		t.Fatal(err)
	}
	if text := got.String(); !strings.Contains(text, "(e-BH)") || strings.Contains(text, "Holm") {
		t.Errorf("%s", text)
	}
}

// byWire goes by paths and wires; one path is on one of them only.
func byWire() Layout {
	figure := Figure{Name: "64 KiB", Load: "tcp_bw", Sizes: []int{64 << 10}, Flows: []int{1}, Unit: "Gb/s"}
	cpu := figure
	cpu.Name, cpu.Unit, cpu.CPU = "CPU", "", true
	return Layout{Name: "qinq", Title: "Tags against tunnels", Tables: []Table{{
		Title: "Streams", Rows: []Axis{ByPath, ByWire}, Columns: []Axis{ByLoad}, Paths: []string{"bgp", "ovs", "host"},
		Wires: []string{"sw", "hw"}, WiresOf: map[string][]string{"ovs": {"sw"}}, Figures: []Figure{figure, cpu},
	}}}
}

// wiresTruth is what one wire of such a study measures.
func wiresTruth(factor float64) *result.Record {
	t := overlaysTruth()
	t.Cells, t.Meters = []result.Cell{recordtest.TCPBw}, true
	t.Arms[2].Factor = factor
	return recordtest.Make(t)
}

// A table over the records of several wires.
func TestLayoutByWire(t *testing.T) {
	hw := wiresTruth(1.01)
	hw.Plan.Wire, hw.Warnings = "tunnel-tso=on", append(hw.Warnings, result.Warning{Code: "odd", Arm: "bgp", Text: "was odd"})
	for name, c := range map[string]struct {
		recs   []Wired
		format string
	}{
		"layout-wires.table":   {[]Wired{{"sw", wiresTruth(1.4)}, {"hw", hw}}, "table"},
		"layout-wires.md":      {[]Wired{{"sw", wiresTruth(1.4)}, {"hw", hw}}, "md"},
		"layout-wires.json":    {[]Wired{{"sw", wiresTruth(1.4)}, {"hw", hw}}, "json"},
		"layout-onewire.table": {[]Wired{{"hw", hw}}, "table"},
	} {
		var got bytes.Buffer
		if err := Write(&got, c.recs, byWire(), view.Options{Format: c.format}); err != nil {
			t.Fatal(err)
		}
		reporttest.Golden(t, name, got.Bytes())
	}
	if err := Write(io.Discard, nil, byWire(), view.Options{}); !errors.Is(err, ErrOtherRecord) {
		t.Errorf("without a record: %v", err)
	}
}

// However wide the terminal is, no line of the tables is wider.
func TestLayoutFits(t *testing.T) {
	rec := overlays()
	for width := 60; width < 240; width += 7 {
		var got bytes.Buffer
		if err := Write(&got, []Wired{{Record: rec}}, twoTables(), view.Options{Width: width}); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(got.String(), "\n") {
			if n := view.Cells.StringWidth(line); n > width {
				t.Errorf("a line of %d columns on a terminal of %d: %q", n, width, line)
			}
		}
	}
}

func TestTableCheck(t *testing.T) {
	for _, l := range []Layout{twoTables(), byPath()} {
		for _, table := range l.Tables {
			if err := table.Check(); err != nil {
				t.Errorf("%s: %v", table.Title, err)
			}
		}
	}
	for axis, change := range map[Axis]func(*Table){
		BySize:  func(t *Table) { t.Columns = nil },
		ByPath:  func(t *Table) { t.Rows = t.Rows[:1] },
		ByLoad:  func(t *Table) { t.Rows = t.Rows[1:] },
		ByFlows: func(t *Table) { t.Figures[0].Flows = []int{1, 2} },
	} {
		table := twoTables().Tables[1]
		change(&table)
		if err := table.Check(); err == nil || !strings.Contains(err.Error(), "more than one "+string(axis)) {
			t.Errorf("%s: %v", axis, err)
		}
	}
}

func TestLayoutRefuses(t *testing.T) {
	rec := overlays()
	if err := Write(io.Discard, []Wired{{Record: rec}}, twoTables(), view.Options{Format: "csv"}); err == nil {
		t.Error("a format that tables have not was taken")
	}
	other := recordtest.Make(reporttest.Small(recordtest.UDPLat))
	if err := Write(io.Discard, []Wired{{Record: other}}, twoTables(), view.Options{}); !errors.Is(err, ErrOtherRecord) {
		t.Errorf("the record of something else: %v", err)
	}
	if err := Write(io.Discard, []Wired{{Record: &result.Record{}}}, twoTables(), view.Options{}); err == nil {
		t.Error("a record without a plan was taken")
	}
}

func TestInUnit(t *testing.T) {
	for _, c := range []struct {
		metric result.Metric
		size   int
		value  float64
		unit   string
		want   float64
	}{
		{result.OneWay, 1, 34_200, "us", 34.2},
		{result.OneWay, 1, 34_200, "ms", 0.0342},
		{result.OneWay, 1, 34_200, "ns", 34_200},
		{result.Bandwidth, 64, 8.36e9, "Gb/s", 8.36},
		{result.Bandwidth, 64, 8e9, "MB/s", 1000},
		{result.Bandwidth, 64, 512e6, "msg/s", 1e6},
		{result.Messages, 8, 1e6, "MB/s", 8},
		{result.Messages, 8, 1e6, "Mb/s", 64},
		{result.Messages, 8, 1e6, "kb/s", 64e3},
		{result.Messages, 8, 1e6, "msg/s", 1e6},
		{result.Transactions, 1, 5e4, "req/s", 5e4},
		{result.Connections, 1, 5e4, "conn/s", 5e4},
	} {
		cell := result.Cell{Metric: c.metric, Size: c.size}
		if got, ok := inUnit(cell, c.value, c.unit); !ok || math.Abs(got/c.want-1) > 1e-9 {
			t.Errorf("%v %s of %d B in %s: %v, %v; want %v", c.value, c.metric, c.size, c.unit, got, ok, c.want)
		}
		if _, ok := inUnit(cell, c.value, "furlong"); ok {
			t.Errorf("%s in furlongs", c.metric)
		}
	}
}

// What the JSON says in numbers is what the table says in marks.
func TestLayoutJSON(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, []Wired{{Record: overlays()}}, twoTables(), view.Options{Format: "json"}); err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	bw := d.Tables[1]
	if d.Format != JSONFormat || len(d.Tables) != 2 || len(bw.Rows) != 12 || len(bw.Columns) != 16 {
		t.Fatalf("%s: %d tables, %d rows, %d columns", d.Format, len(d.Tables), len(bw.Rows), len(bw.Columns))
	}
	if e := bw.Cells[3][5]; e.Path != "bgp" || e.Baseline != "ovs" || e.Size != 256 || math.Abs(e.Ratio.Value/2-1) > 0.02 || e.Verdict != "faster" {
		t.Errorf("bgp against ovs at 256 B: %+v", e)
	}
	if e := bw.Cells[0][0]; e.Path != "ovs" || e.Unit != "MB/s" || math.Abs(*e.Value/(600/2.4*8/1000)-1) > 0.1 {
		t.Errorf("ovs at 8 B: %+v", e)
	}
}

// No report puts what was measured on an emulated CPU beside what was not.
func TestMixedRecords(t *testing.T) {
	l := oneTable()
	l.Tables[0].Rows = []Axis{ByWire, ByPath}
	l.Tables[0].Wires = []string{"sw", "hw"}
	both := []Wired{{"sw", oneCell()}, {"hw", reporttest.Emulate(oneCell())}}
	var out bytes.Buffer
	if err := Write(&out, both, l, view.Options{}); !errors.Is(err, ErrMixed) || out.Len() > 0 {
		t.Errorf("tables over an emulated record and one that is not: %v", err)
	}
	both[0].Record = reporttest.Emulate(oneCell())
	if err := Write(&out, both, l, view.Options{}); err != nil || !strings.Contains(out.String(), "! EMULATED:") {
		t.Errorf("tables over two emulated records: %v\n%s", err, &out)
	}
}

// Tables print names as every other report does.
func TestTablesAreClean(t *testing.T) {
	tables := twoTables()
	plain.Taint(&tables, "Load", "Unit", "Rows", "Columns", "Baseline", "Paths", "Sizes", "Flows")
	truth := overlays()
	plain.Taint(truth, "Format", "Role", "Transport", "Metric", "Code", "Reason", "Failed", "Name", "Load", "Arm", "Cell", "Path")
	for _, f := range Formats() {
		var out bytes.Buffer
		if err := Write(&out, []Wired{{Wire: plain.Hostile, Record: truth}}, tables, view.Options{Format: f}); err != nil {
			t.Fatal(err)
		}
		reporttest.Clean(t, f, out.String())
	}
}
