package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/result"
)

var update = flag.Bool("update", false, "write the golden files")

// usual is a default run: four loads over three paths.
func usual() recordtest.Truth {
	vxlan := recordtest.Path("vxlan", 1.37)
	return recordtest.Truth{
		Seed: 42, Series: 6, Rounds: 12, Noise: recordtest.Quiet, Histograms: true, Meters: true,
		Arms: []recordtest.Arm{recordtest.Host(), recordtest.Copy(), recordtest.Path("routed", 1.08), vxlan},
		Cells: []result.Cell{recordtest.TCPLat, recordtest.UDPLat, recordtest.TCPBw, recordtest.UDPMsg,
			recordtest.TCPMsg, recordtest.TCPRR},
	}
}

// usualRecord is made once: its histograms take a second.
var usualRecord = sync.OnceValue(func() *result.Record { return recordtest.Make(usual()) })

// small is one load, so that a golden file shows one thing.
func small(cells ...result.Cell) recordtest.Truth {
	t := usual()
	t.Cells, t.Rounds = cells, 8
	return t
}

// sample is a record and the report options that a golden file is made with.
type sample struct {
	name string
	make func() *result.Record
	opt  Options
}

var samples = []sample{
	{"usual.table", usualRecord, Options{}},
	{"usual-80.table", usualRecord, Options{Width: 80}},
	{"usual-verbose.table", usualRecord, Options{Verbose: true}},
	{"many-80.table", many, Options{Width: 80}},
	{"usual.md", usualRecord, Options{Format: "md"}},
	{"usual.csv", usualRecord, Options{Format: "csv"}},
	{"usual.prom", usualRecord, Options{Format: "prom"}},
	{"usual.benchstat", usualRecord, Options{Format: "benchstat"}},
	{"usual.qperf", usualRecord, Options{Style: "qperf"}},
	{"small.json", func() *result.Record { return recordtest.Make(small(recordtest.TCPLat)) }, Options{Format: "json"}},
	{"loss.table", loss, Options{}},
	{"loss.qperf", loss, Options{Style: "qperf"}},
	{"fragments.table", fragments, Options{}},
	{"schedule.table", schedule, Options{}},
	{"schedule.md", schedule, Options{Format: "md"}},
	{"schedule.csv", schedule, Options{Format: "csv"}},
	{"schedule.benchstat", schedule, Options{Format: "benchstat"}},
	{"paced.table", paced, Options{}},
	{"paced.md", paced, Options{Format: "md"}},
	{"paced.csv", paced, Options{Format: "csv"}},
	{"paced.json", paced, Options{Format: "json"}},
	{"paced.benchstat", paced, Options{Format: "benchstat"}},
	{"paced.qperf", paced, Options{Style: "qperf"}},
	{"beside.table", backgroundStream, Options{}},
	{"beside.csv", backgroundStream, Options{Format: "csv"}},
	{"beside.json", backgroundStream, Options{Format: "json"}},
	{"schedule.qperf", schedule, Options{Style: "qperf"}},
	{"interrupted.table", interrupted, Options{}},
	{"one-series.table", oneSeries, Options{}},
	{"noisy.table", noisy, Options{}},
	{"invalid.table", invalid, Options{}},
	{"failed-arm.table", failedArm, Options{}},
	{"failed-arm.csv", failedArm, Options{Format: "csv"}},
	{"blank.table", blank, Options{}},
	{"truncated.table", truncated, Options{}},
	{"sweep.table", sweep, Options{}},
	{"sweep.md", sweep, Options{Format: "md"}},
	{"tools.table", tools, Options{}},
	{"early.table", early, Options{}},
	{"two-machines-160.table", twoMachines, Options{Width: 160}},
	{"real-paths.table", realPaths, Options{}},
	{"emulated.table", emulated, Options{}},
	{"emulated.md", emulated, Options{Format: "md"}},
	{"emulated.csv", emulated, Options{Format: "csv"}},
	{"emulated.json", emulated, Options{Format: "json"}},
	{"emulated.benchstat", emulated, Options{Format: "benchstat"}},
	{"emulated.qperf", emulated, Options{Style: "qperf"}},
	{"emulated-arm.table", emulatedArm, Options{}},
	{"emulated-arm.md", emulatedArm, Options{Format: "md"}},
	{"emulated-arm.csv", emulatedArm, Options{Format: "csv"}},
	{"emulated-arm.json", emulatedArm, Options{Format: "json"}},
	{"emulated-arm.benchstat", emulatedArm, Options{Format: "benchstat"}},
	{"emulated-arm.qperf", emulatedArm, Options{Style: "qperf"}},
	{"emulated-sweep.table", emulatedSweep, Options{}},
	{"hostile.md", hostile, Options{Format: "md"}},
}

// many has more paths and loads than a screen has room for.
func many() *result.Record {
	t := small(recordtest.TCPLat, recordtest.UDPLat, recordtest.TCPBw, recordtest.UDPBw, recordtest.TCPRR, recordtest.TCPMsg)
	t.Histograms, t.Meters = false, false
	for i, name := range []string{"macvlan", "ipvlan", "geneve", "ovs-vxlan.2", "vxlan+fast", "a-name-of-twenty-six-signs"} {
		t.Arms = append(t.Arms, recordtest.Path(name, 0.9+0.05*float64(i)))
	}
	return recordtest.Make(t)
}

func loss() *result.Record {
	t := small(recordtest.UDPLat, recordtest.UDPMsg)
	t.Arms[3].Loss = 1e-4
	return recordtest.Make(t)
}

func fragments() *result.Record { return recordtest.Make(small(recordtest.UDPBw)) }

// schedule has a client that could not send to one path when it should.
func schedule() *result.Record {
	t := small(recordtest.Probe, recordtest.Ping)
	t.Arms[3].Late = 400
	rec := recordtest.Make(t)
	for i := range rec.Slices {
		if s := &rec.Slices[i]; s.Arm == "vxlan" && s.Round == 0 {
			s.Latency.Missed = 2
		}
	}
	return rec
}

// paced has a path that loses a part of the datagrams, and so does not hold the rate.
func paced() *result.Record {
	t := small(recordtest.UDPAt, recordtest.TCPAt)
	t.Arms[2].CPUFactor, t.Arms[3].CPUFactor, t.Arms[3].Loss = 1.002, 1.4, 0.02
	rec := recordtest.Make(t)
	for i := range rec.Slices {
		if s := &rec.Slices[i]; s.Cell == recordtest.TCPAt.Name {
			s.Stream.RecvMessages, s.Stream.RecvBytes = s.Stream.SentMessages, s.Stream.SentBytes
		}
	}
	return rec
}

// backgroundStream has a path whose background loses a part of its datagrams.
func backgroundStream() *result.Record {
	t := small(recordtest.Ping, recordtest.Background)
	t.Arms[3].Loss = 0.02
	return recordtest.Make(t)
}

func interrupted() *result.Record {
	rec := recordtest.Make(small(recordtest.TCPLat))
	var kept []result.Slice
	for _, s := range rec.Slices {
		if s.Series < 3 || s.Series == 3 && s.Round < 2 {
			kept = append(kept, s)
		}
	}
	rec.Slices = kept
	rec.End = &result.End{Reason: result.Interrupted, Series: 3, Slices: len(kept), Took: 41e9}
	return rec
}

func oneSeries() *result.Record {
	t := small(recordtest.TCPLat)
	t.Series, t.Rounds = 1, 20
	return recordtest.Make(t)
}

func noisy() *result.Record {
	t := small(recordtest.TCPLat, recordtest.UDPLat)
	t.Noise, t.Arms[3].Factor = recordtest.Noisy, 1.02
	t.Arms[2].Factor = 1.01
	return recordtest.Make(t)
}

func invalid() *result.Record {
	t := small(recordtest.TCPLat)
	t.Arms[1].Factor = 1.08
	return recordtest.Make(t)
}

func failedArm() *result.Record {
	t := small(recordtest.TCPLat, recordtest.TCPBw)
	t.Arms[3].Fails = "connect 10.0.2.2:20000: connection refused"
	rec := recordtest.Make(t)
	rec.Warnings = append(rec.Warnings, result.Warning{Code: "arm-failed", Arm: "vxlan", Text: "left out after 3 failures"})
	return rec
}

// blank has a path through which too little comes in every fourth slice, and
// one with which that happened once.
func blank() *result.Record {
	rec := recordtest.Make(small(recordtest.UDPMsg))
	for i := range rec.Slices {
		if s := &rec.Slices[i]; s.Arm == "vxlan" && s.Round%4 == 0 || s.Arm == "routed" && s.Series+s.Round == 0 {
			s.Stream.RecvMessages, s.Stream.RecvBytes = 3, 3
			s.Stream.RateMessages, s.Stream.RateBytes, s.Stream.RateNs = 0, 0, 0
		}
	}
	return rec
}

func truncated() *result.Record {
	rec := recordtest.Make(small(recordtest.TCPLat))
	rec.End, rec.Slices, rec.Meters = nil, rec.Slices[:100], nil
	return rec
}

func sweep() *result.Record { return recordtest.Make(sweepTruth()) }

func sweepTruth() recordtest.Truth {
	t := small()
	t.Histograms = false
	for size := 8; size <= 65536; size *= 8 {
		c := recordtest.UDPLat
		c.Size, c.Name = size, "udp_lat/"+bytesSize(size)
		t.Cells = append(t.Cells, c)
	}
	t.Noise.Slice = 0.05
	t.Arms[2].Factor = 1.01
	return t
}

func tools() *result.Record {
	t := small(recordtest.TCPLat, recordtest.TCPBw)
	t.Arms = []recordtest.Arm{recordtest.Host(), {Arm: result.Arm{Name: "qperf:host", Path: "qperf", MTU: 1500}, Factor: 1.01}}
	t.Meters = false
	return recordtest.Make(t)
}

func early() *result.Record {
	t := small(recordtest.TCPLat)
	t.Series, t.Precision, t.Looks = 6, 0.05, []int{6, 9}
	rec := recordtest.Make(t)
	rec.Plan.Series, rec.End.Reason = 9, result.Precise
	return rec
}

// twoMachines have cores of their own, a hypervisor that takes time, no exact
// clock of idle time, and a meter that failed.
func twoMachines() *result.Record {
	rec := recordtest.Make(small(recordtest.TCPLat, recordtest.TCPBw))
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
	t := small(recordtest.UDPLat, cell)
	t.Arms[2].Versions = map[string]string{"gobgp": "4.8.0"}
	t.Arms[3].Name, t.Arms[3].Path, t.Arms[3].Options = "ovs-vxlan.2", "ovs-vxlan", "tunnels=5"
	t.Arms[3].Versions = map[string]string{"openvswitch": "3.1.0", "ovn": "23.03.1"}
	t.Arms[3].Pairs = 5
	return recordtest.Make(t)
}

// emulated is the record of a machine whose CPU software plays.
func emulated() *result.Record {
	t := small(recordtest.TCPLat)
	t.Histograms = false
	return emulate(recordtest.Make(t))
}

func emulate(rec *result.Record) *result.Record {
	for i := range rec.Facts {
		f := &rec.Facts[i]
		f.CPUModel, f.Hypervisor, f.Emulated = "QEMU TCG CPU version 2.5+", "QEMU", true
	}
	return rec
}

// emulatedArm has a path through such a machine, on one that is none.
func emulatedArm() *result.Record {
	t := small(recordtest.TCPLat, recordtest.UDPMsg)
	t.Histograms, t.Arms[3] = false, vmVXLAN()
	return recordtest.Make(t)
}

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
	t := small(recordtest.TCPLat)
	t.Arms[2].Name = "a|b\x1b[2J<script>\n"
	return recordtest.Make(t)
}

func TestGolden(t *testing.T) {
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			var got bytes.Buffer
			if err := Write(&got, s.make(), s.opt); err != nil {
				t.Fatal(err)
			}
			golden(t, s.name, got.Bytes())
		})
	}
}

// golden holds output to what was printed before.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("report differs from %s (-want +got), run go test -update if it should:\n%s", file, diff)
	}
}
