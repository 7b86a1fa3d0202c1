package report

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/testenv/plain"
	"github.com/venturi-net/venturi/result"
)

// sample is a record and the report options that a golden file is made with.
type sample struct {
	name string
	make func() *result.Record
	opt  view.Options
}

var samples = []sample{
	{"usual.table", reporttest.UsualRecord, view.Options{}},
	{"usual-80.table", reporttest.UsualRecord, view.Options{Width: 80}},
	{"usual-bars.table", reporttest.UsualRecord, view.Options{Bars: true}},
	{"usual-bars-80.table", reporttest.UsualRecord, view.Options{Bars: true, Width: 80}},
	{"noisy-bars-160.table", noisy, view.Options{Bars: true, Width: 160}},
	{"interrupted-bars-160.table", interrupted, view.Options{Bars: true, Width: 160}},
	{"usual-verbose.table", reporttest.UsualRecord, view.Options{Verbose: true}},
	{"many-80.table", many, view.Options{Width: 80}},
	{"usual.md", reporttest.UsualRecord, view.Options{Format: "md"}},
	{"usual.csv", reporttest.UsualRecord, view.Options{Format: "csv"}},
	{"usual.prom", reporttest.UsualRecord, view.Options{Format: "prom"}},
	{"usual.benchstat", reporttest.UsualRecord, view.Options{Format: "benchstat"}},
	{"usual.qperf", reporttest.UsualRecord, view.Options{Style: "qperf"}},
	{"small.json", func() *result.Record { return recordtest.Make(reporttest.Small(recordtest.TCPLat)) }, view.Options{Format: "json"}},
	{"loss.table", loss, view.Options{}},
	{"loss.qperf", loss, view.Options{Style: "qperf"}},
	{"fragments.table", fragments, view.Options{}},
	{"schedule.table", schedule, view.Options{}},
	{"schedule.md", schedule, view.Options{Format: "md"}},
	{"schedule.csv", schedule, view.Options{Format: "csv"}},
	{"schedule.benchstat", schedule, view.Options{Format: "benchstat"}},
	{"paced.table", paced, view.Options{}},
	{"paced.md", paced, view.Options{Format: "md"}},
	{"paced.csv", paced, view.Options{Format: "csv"}},
	{"paced.json", paced, view.Options{Format: "json"}},
	{"paced.benchstat", paced, view.Options{Format: "benchstat"}},
	{"paced.qperf", paced, view.Options{Style: "qperf"}},
	{"beside.table", backgroundStream, view.Options{}},
	{"beside.csv", backgroundStream, view.Options{Format: "csv"}},
	{"beside.json", backgroundStream, view.Options{Format: "json"}},
	{"threads.table", fullThread, view.Options{Verbose: true}},
	{"threads.md", fullThread, view.Options{Format: "md"}},
	{"threads.csv", fullThread, view.Options{Format: "csv"}},
	{"curve.table", curve, view.Options{}},
	{"curve.benchstat", curve, view.Options{Format: "benchstat"}},
	{"schedule.qperf", schedule, view.Options{Style: "qperf"}},
	{"interrupted.table", interrupted, view.Options{}},
	{"one-series.table", oneSeries, view.Options{}},
	{"noisy.table", noisy, view.Options{}},
	{"invalid.table", invalid, view.Options{}},
	{"failed-arm.table", failedArm, view.Options{}},
	{"failed-arm.csv", failedArm, view.Options{Format: "csv"}},
	{"blank.table", blank, view.Options{}},
	{"truncated.table", truncated, view.Options{}},
	{"sweep.table", sweep, view.Options{}},
	{"sweep.md", sweep, view.Options{Format: "md"}},
	{"tools.table", tools, view.Options{}},
	{"early.table", early, view.Options{}},
	{"two-machines-160.table", twoMachines, view.Options{Width: 160}},
	{"real-paths.table", realPaths, view.Options{}},
	{"emulated.table", emulated, view.Options{}},
	{"emulated.md", emulated, view.Options{Format: "md"}},
	{"emulated.csv", emulated, view.Options{Format: "csv"}},
	{"emulated.json", emulated, view.Options{Format: "json"}},
	{"emulated.benchstat", emulated, view.Options{Format: "benchstat"}},
	{"emulated.qperf", emulated, view.Options{Style: "qperf"}},
	{"emulated-arm.table", emulatedArm, view.Options{}},
	{"emulated-arm.md", emulatedArm, view.Options{Format: "md"}},
	{"emulated-arm.csv", emulatedArm, view.Options{Format: "csv"}},
	{"emulated-arm.json", emulatedArm, view.Options{Format: "json"}},
	{"emulated-arm.benchstat", emulatedArm, view.Options{Format: "benchstat"}},
	{"emulated-arm.qperf", emulatedArm, view.Options{Style: "qperf"}},
	{"emulated-sweep.table", emulatedSweep, view.Options{}},
	{"hostile.md", hostile, view.Options{Format: "md"}},
}

// many has more paths and loads than a screen has room for.
var many = sync.OnceValue(func() *result.Record {
	t := reporttest.Small(recordtest.TCPLat, recordtest.UDPLat, recordtest.TCPBw, recordtest.UDPBw, recordtest.TCPRR, recordtest.TCPMsg)
	t.Histograms, t.Meters = false, false
	for i, name := range []string{"macvlan", "ipvlan", "geneve", "ovs-vxlan.2", "vxlan+fast", "a-name-of-twenty-six-signs"} {
		t.Arms = append(t.Arms, recordtest.Path(name, 0.9+0.05*float64(i)))
	}
	return recordtest.Make(t)
})

var loss = sync.OnceValue(func() *result.Record {
	t := reporttest.Small(recordtest.UDPLat, recordtest.UDPMsg)
	t.Arms[3].Loss = 1e-4
	return recordtest.Make(t)
})

func fragments() *result.Record { return recordtest.Make(reporttest.Small(recordtest.UDPBw)) }

// schedule has a client that could not send to one path when it should.
var schedule = sync.OnceValue(func() *result.Record {
	t := reporttest.Small(recordtest.Probe, recordtest.Ping)
	t.Arms[3].Late = 400
	rec := recordtest.Make(t)
	for i := range rec.Slices {
		if s := &rec.Slices[i]; s.Arm == "vxlan" && s.Round == 0 {
			s.Latency.Missed = 2
		}
	}
	return rec
})

// paced has a path that loses a part of the datagrams, and so does not hold the rate.
var paced = sync.OnceValue(func() *result.Record {
	t := reporttest.Small(recordtest.UDPAt, recordtest.TCPAt)
	t.Arms[2].CPUFactor, t.Arms[3].CPUFactor, t.Arms[3].Loss = 1.002, 1.4, 0.02
	rec := recordtest.Make(t)
	for i := range rec.Slices {
		if s := &rec.Slices[i]; s.Cell == recordtest.TCPAt.Name {
			s.Stream.RecvMessages, s.Stream.RecvBytes = s.Stream.SentMessages, s.Stream.SentBytes
		}
	}
	return rec
})

// backgroundStream has a path whose background loses a part of its datagrams.
var backgroundStream = sync.OnceValue(func() *result.Record {
	t := reporttest.Small(recordtest.Ping, recordtest.Background)
	t.Arms[3].Loss = 0.02
	return recordtest.Make(t)
})

// fullThread has a path whose packets are all in the hands of one thread.
var fullThread = sync.OnceValue(func() *result.Record {
	rec := recordtest.Make(reporttest.Small(recordtest.UDPMsg, recordtest.Background))
	recordtest.AddThreads(rec, "host", 0.02)
	recordtest.AddThreads(rec, "vxlan", 0.97)
	return rec
})

// curve has the latency beside shares of what each path carries.
var curve = sync.OnceValue(func() *result.Record {
	return recordtest.Make(reporttest.Small(recordtest.Curve(0, 0.5, 0.9)...))
})

var interrupted = sync.OnceValue(func() *result.Record {
	rec := recordtest.Make(reporttest.Small(recordtest.TCPLat))
	var kept []result.Slice
	for _, s := range rec.Slices {
		if s.Series < 3 || s.Series == 3 && s.Round < 2 {
			kept = append(kept, s)
		}
	}
	rec.Slices = kept
	rec.End = &result.End{Reason: result.Interrupted, Series: 3, Slices: len(kept), Took: 41e9}
	return rec
})

func oneSeries() *result.Record {
	t := reporttest.Small(recordtest.TCPLat)
	t.Series, t.Rounds = 1, 20
	return recordtest.Make(t)
}

var noisy = sync.OnceValue(func() *result.Record {
	t := reporttest.Small(recordtest.TCPLat, recordtest.UDPLat)
	t.Noise, t.Arms[3].Factor = recordtest.Noisy, 1.02
	t.Arms[2].Factor = 1.01
	return recordtest.Make(t)
})

func invalid() *result.Record {
	t := reporttest.Small(recordtest.TCPLat)
	t.Arms[1].Factor = 1.08
	return recordtest.Make(t)
}

var failedArm = sync.OnceValue(func() *result.Record {
	t := reporttest.Small(recordtest.TCPLat, recordtest.TCPBw)
	t.Arms[3].Fails = "connect 10.0.2.2:20000: connection refused"
	rec := recordtest.Make(t)
	rec.Warnings = append(rec.Warnings, result.Warning{Code: "arm-failed", Arm: "vxlan", Text: "left out after 3 failures"})
	return rec
})

// blank has a path through which too little comes in every fourth slice, and
// one with which that happened once.
func blank() *result.Record {
	rec := recordtest.Make(reporttest.Small(recordtest.UDPMsg))
	for i := range rec.Slices {
		if s := &rec.Slices[i]; s.Arm == "vxlan" && s.Round%4 == 0 || s.Arm == "routed" && s.Series+s.Round == 0 {
			s.Stream.RecvMessages, s.Stream.RecvBytes = 3, 3
			s.Stream.RateMessages, s.Stream.RateBytes, s.Stream.RateNs = 0, 0, 0
		}
	}
	return rec
}

func truncated() *result.Record {
	rec := recordtest.Make(reporttest.Small(recordtest.TCPLat))
	rec.End, rec.Slices, rec.Meters = nil, rec.Slices[:100], nil
	return rec
}

var sweep = sync.OnceValue(func() *result.Record { return recordtest.Make(sweepTruth()) })

func sweepTruth() recordtest.Truth {
	t := reporttest.Small()
	t.Histograms = false
	for size := 8; size <= 65536; size *= 8 {
		c := recordtest.UDPLat
		c.Size, c.Name = size, "udp_lat/"+unit.MessageSize(size)
		t.Cells = append(t.Cells, c)
	}
	t.Noise.Slice = 0.05
	t.Arms[2].Factor = 1.01
	return t
}

func tools() *result.Record {
	t := reporttest.Small(recordtest.TCPLat, recordtest.TCPBw)
	t.Arms = []recordtest.Arm{recordtest.Host(), {Arm: result.Arm{Name: "qperf:host", Path: "qperf", MTU: 1500}, Factor: 1.01}}
	t.Meters = false
	return recordtest.Make(t)
}

func early() *result.Record {
	t := reporttest.Small(recordtest.TCPLat)
	t.Series, t.Precision, t.Looks = 6, 0.05, []int{6, 9}
	rec := recordtest.Make(t)
	rec.Plan.Series, rec.End.Reason = 9, result.Precise
	return rec
}

// twoMachines have cores of their own, a hypervisor that takes time, no exact
// clock of idle time, and a meter that failed.
func twoMachines() *result.Record {
	rec := recordtest.Make(reporttest.Small(recordtest.TCPLat, recordtest.TCPBw))
	rec.Plan.SharedCores = false
	for i := range rec.Meters {
		switch m := &rec.Meters[i]; {
		case m.Name == "cpu":
			m.Values["steal"] = m.WallNs / 200
			m.Resolution = "busy and classes: 10 ms units of /proc/stat (no exact time: the kernel has no BTF)"
		case m.Series == 2 && m.Machine == "b":
			m.Values, m.Resolution = nil, "counts of the whole machine; 1 of 8 slices not read: file is gone"
		}
	}
	return rec
}

// realPaths are carried by programs that have versions, one over five tunnels
// with fewer flows.
func realPaths() *result.Record {
	cell := recordtest.TCPLat
	cell.Flows = 2
	t := reporttest.Small(recordtest.UDPLat, cell)
	t.Arms[2].Versions = map[string]string{"gobgp": "4.8.0"}
	t.Arms[3].Name, t.Arms[3].Path, t.Arms[3].Options = "ovs-vxlan.2", "ovs-vxlan", "tunnels=5"
	t.Arms[3].Versions = map[string]string{"openvswitch": "3.1.0", "ovn": "23.03.1"}
	t.Arms[3].Pairs = 5
	return recordtest.Make(t)
}

// emulated is the record of a machine whose CPU software plays.
var emulated = sync.OnceValue(func() *result.Record {
	t := reporttest.Small(recordtest.TCPLat)
	t.Histograms = false
	return reporttest.Emulate(recordtest.Make(t))
})

// emulatedArm has a path through such a machine, on one that is none.
var emulatedArm = sync.OnceValue(func() *result.Record {
	t := reporttest.Small(recordtest.TCPLat, recordtest.UDPMsg)
	t.Histograms, t.Arms[3] = false, vmVXLAN()
	return recordtest.Make(t)
})

func vmVXLAN() recordtest.Arm {
	vm := recordtest.Path("vm-vxlan", 40)
	vm.Emulated = true
	return vm
}

func emulatedSweep() *result.Record {
	t := sweepTruth()
	t.Arms[3] = vmVXLAN()
	return recordtest.Make(t)
}

// hostile names would break a table or move a cursor.
func hostile() *result.Record {
	t := reporttest.Small(recordtest.TCPLat)
	t.Arms[2].Name = "a|b\x1b[2J<script>\n"
	return recordtest.Make(t)
}

func TestGolden(t *testing.T) {
	shown := map[string]bool{}
	for _, s := range samples {
		record, _, _ := strings.Cut(s.name, ".")
		t.Run(s.name, func(t *testing.T) {
			if shown[record] && record != "usual" { // which every format shows
				plain.SkipShort(t)
			}
			shown[record] = true
			var got bytes.Buffer
			if err := Write(&got, s.make(), s.opt); err != nil {
				t.Fatal(err)
			}
			reporttest.Golden(t, s.name, got.Bytes())
		})
	}
}
