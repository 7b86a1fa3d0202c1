package analysis_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

func truth(cells ...result.Cell) recordtest.Truth {
	return recordtest.Truth{Seed: 11, Series: 6, Rounds: 12, Noise: recordtest.Quiet, Meters: true, Cells: cells,
		Arms: []recordtest.Arm{recordtest.Host(), recordtest.Copy(), recordtest.Path("routed", 1), recordtest.Path("vxlan", 1.4)}}
}

func analyze(t testing.TB, rec *result.Record, opt analysis.Options) *analysis.Summary {
	t.Helper()
	s, err := analysis.Analyze(rec, opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// row finds a path in a cell.
func row(t testing.TB, s *analysis.Summary, cell, arm string) analysis.Row {
	t.Helper()
	for _, c := range s.Cells {
		for _, r := range c.Rows {
			if c.Cell.Name == cell && r.Arm.Name == arm {
				return r
			}
		}
	}
	t.Fatalf("no row %s in %s", arm, cell)
	return analysis.Row{}
}

// What is in the record by construction must come out.
func TestTruthComesOut(t *testing.T) {
	tr := truth(recordtest.TCPLat, recordtest.TCPBw, recordtest.UDPMsg, recordtest.TCPMsg, recordtest.TCPRR, recordtest.UDPBw)
	tr.Arms[3].CPUFactor = 1.7
	s := analyze(t, recordtest.Make(tr), analysis.Options{})
	if s.Series != 6 || s.Tests != 12 || s.Level != 0.95 || s.Looks != 1 || len(s.Cells) != 6 {
		t.Errorf("series %d, tests %d, level %v, looks %d, cells %d", s.Series, s.Tests, s.Level, s.Looks, len(s.Cells))
	}
	for _, c := range s.Cells {
		want := 1 / 1.4
		if c.Cell.Metric.LowerIsBetter() {
			want = 1.4
		}
		slow := row(t, s, c.Cell.Name, "vxlan")
		if math.Abs(slow.Ratio.Value/want-1) > 0.01 || slow.Judged.Verdict != stats.Slower {
			t.Errorf("%s: ratio %v, want %v; verdict %q", c.Cell.Name, slow.Ratio.Value, want, slow.Judged.Verdict)
		}
		if same := row(t, s, c.Cell.Name, "routed"); same.Judged.Verdict != stats.Equivalent {
			t.Errorf("%s: an equal path is %q", c.Cell.Name, same.Judged.Verdict)
		}
		if c.Floor == nil || c.Floor.Invalid || c.Floor.Size > 0.02 {
			t.Errorf("%s: noise floor %+v", c.Cell.Name, c.Floor)
		}
		if cpu := slow.CPU; cpu == nil || cpu.Ratio == nil || math.Abs(cpu.Ratio.Value/1.7-1) > 0.02 {
			t.Errorf("%s: CPU %+v, want 1.7 times the host's", c.Cell.Name, cpu)
		}
		if base := c.Rows[0]; base.Arm.Name != "host" || base.Ratio != nil || base.Judged != nil || base.Value == 0 {
			t.Errorf("%s: the first row is not the baseline's: %+v", c.Cell.Name, base)
		}
	}
}

// Machines that share cores read the same counters: adding them would double
// the cost. Machines of their own must be added.
func TestCPUCost(t *testing.T) {
	large := recordtest.Background
	large.Name, large.Size = "ping/8192/beside", 8192
	rec := recordtest.Make(truth(recordtest.TCPLat, recordtest.TCPBw, recordtest.UDPMsg, recordtest.TCPMsg, recordtest.TCPCRR, recordtest.Background, large))
	units := map[string]struct {
		per  string
		cost float64
	}{"tcp_lat/1": {analysis.PerPacket, 4000}, "tcp_bw/65536": {analysis.PerGB, 3e8},
		"udp_bw/1": {analysis.PerPacket, 2500}, "tcp_bw/1": {analysis.PerMessage, 2500}, "tcp_crr/1": {analysis.PerConnection, 4000},
		recordtest.Background.Name: {analysis.PerPacket, 4000}, large.Name: {analysis.PerMessage, 4000}}
	for _, shared := range []bool{true, false} {
		rec.Plan.SharedCores = shared
		s := analyze(t, rec, analysis.Options{Live: true})
		for cell, want := range units {
			cpu := row(t, s, cell, "host").CPU
			cost := want.cost
			if !shared {
				cost *= 2
			}
			if cpu.Unit != want.per || math.Abs(cpu.Cost/cost-1) > 0.03 {
				t.Errorf("%s, shared %v: %v ns per %s, want %v per %s", cell, shared, cpu.Cost, cpu.Unit, cost, want.per)
			}
			if len(cpu.ByMachine) > 0 == shared {
				t.Errorf("%s, shared %v: by machine %v", cell, shared, cpu.ByMachine)
			}
			sum, ofMachines := 0.0, 0.0
			for _, v := range cpu.Classes {
				sum += v
			}
			for machine, classes := range cpu.MachineClasses {
				of := 0.0
				for _, v := range classes {
					of += v
				}
				if math.Abs(of/cpu.ByMachine[machine]-1) > 0.03 {
					t.Errorf("%s: classes of %s %v do not add up to %v", cell, machine, classes, cpu.ByMachine[machine])
				}
				ofMachines += of
			}
			if !shared && math.Abs(ofMachines/sum-1) > 0.01 || shared && ofMachines > 0 {
				t.Errorf("%s, shared %v: classes of machines %v, of all %v", cell, shared, cpu.MachineClasses, cpu.Classes)
			}
			cores := 2
			if !shared {
				cores = 4 // cores of one name on two machines are two
			}
			if math.Abs(sum/cost-1) > 0.03 || len(cpu.ByCore) != cores {
				t.Errorf("%s: classes %v do not add up to %v; cores %v", cell, cpu.Classes, cost, cpu.ByCore)
			}
		}
	}
}

func TestLossAndFragments(t *testing.T) {
	tr := truth(recordtest.UDPLat, recordtest.UDPMsg, recordtest.UDPBw)
	tr.Arms[3].Loss = 0.01
	rec := recordtest.Make(tr)
	s := analyze(t, rec, analysis.Options{})
	lat := row(t, s, "udp_lat/1", "vxlan").Latency
	if lat.Lost == 0 || lat.Requests != lat.Replies+lat.Lost {
		t.Errorf("latency: %+v", lat)
	}
	if clean := row(t, s, "udp_lat/1", "host").Latency; clean.Lost != 0 {
		t.Errorf("the clean path lost %d", clean.Lost)
	}
	if share := row(t, s, "udp_bw/1", "vxlan").Stream.LossShare(); math.Abs(share-0.01) > 0.001 {
		t.Errorf("lost share %v, want 0.01", share)
	}
	for arm, want := range map[string]int{"host": 6, "vxlan": 6} {
		if n := row(t, s, "udp_bw/8192", arm).Fragments; n != want {
			t.Errorf("%s: %d fragments of 8 KiB, want %d", arm, n, want)
		}
	}
	for _, tc := range []struct{ size, mtu, want int }{{1472, 1500, 1}, {1473, 1500, 2}, {1, 0, 1}, {65507, 1500, 45}, {1422, 1450, 1}, {1423, 1450, 2}, {100, 20, 1}, {100, 28, 14}} {
		c := recordtest.UDPMsg
		c.Size = tc.size
		r := *rec
		r.Plan.Cells, r.Plan.Arms = []result.Cell{c}, append([]result.Arm{}, rec.Plan.Arms...)
		r.Plan.Arms[0].MTU = tc.mtu
		if n := row(t, analyze(t, &r, analysis.Options{}), c.Name, "host").Fragments; n != tc.want {
			t.Errorf("%d bytes over MTU %d: %d fragments, want %d", tc.size, tc.mtu, n, tc.want)
		}
	}
}

// Analyze is called after every series: with any number of slices it must give
// an answer, and one short series must not count as much as a whole one.
func TestGrowingRecord(t *testing.T) {
	whole := recordtest.Make(truth(recordtest.TCPLat))
	perSeries := len(whole.Slices) / 6
	for n := range whole.Slices {
		rec := *whole
		rec.Slices, rec.End = whole.Slices[:n], nil
		s := analyze(t, &rec, analysis.Options{Live: true})
		full, rest := n/perSeries, n%perSeries
		if full >= 1 && rest < perSeries/3 && s.Series != full {
			t.Fatalf("%d slices: %d series, want %d", n, s.Series, full)
		}
	}
	cut := *whole
	cut.Slices = whole.Slices[:3*perSeries+4]
	clean := *whole
	clean.Slices = whole.Slices[:3*perSeries]
	a := row(t, analyze(t, &cut, analysis.Options{Live: true}), "tcp_lat/1", "vxlan").Ratio
	b := row(t, analyze(t, &clean, analysis.Options{Live: true}), "tcp_lat/1", "vxlan").Ratio
	if !reflect.DeepEqual(a, b) {
		t.Errorf("one round of a fourth series changes the estimate: %+v, %+v", a, b)
	}
}

func TestAnalyzeLeavesTheRecord(t *testing.T) {
	rec := recordtest.Make(truth(recordtest.TCPLat))
	again := recordtest.Make(truth(recordtest.TCPLat))
	analyze(t, rec, analysis.Options{})
	if !reflect.DeepEqual(rec, again) {
		t.Error("the record has changed")
	}
	if _, err := analysis.Analyze(&result.Record{}, analysis.Options{}); !errors.Is(err, analysis.ErrNoPlan) {
		t.Errorf("no plan: %v", err)
	}
}

func TestFailures(t *testing.T) {
	tr := truth(recordtest.TCPLat)
	tr.Arms[3].Fails = "connection refused"
	rec := recordtest.Make(tr)
	// One series of another arm lost its baseline in some rounds.
	for i := range rec.Slices {
		if s := &rec.Slices[i]; s.Arm == "host" && s.Series == 2 && s.Round < 4 {
			s.Latency, s.Failed = nil, "timeout"
		}
	}
	s := analyze(t, rec, analysis.Options{})
	failed := row(t, s, "tcp_lat/1", "vxlan")
	if failed.Failed != "connection refused" || failed.Value != 0 || failed.Ratio != nil || failed.Judged != nil || failed.NoFigure != 72 {
		t.Errorf("failed arm: %+v", failed)
	}
	if r := row(t, s, "tcp_lat/1", "routed").Ratio; r.Rounds != 68 || r.Series != 6 {
		t.Errorf("%d rounds of %d series, want the 68 in which both had a figure", r.Rounds, r.Series)
	}
	if s.Tests != 1 {
		t.Errorf("%d tests, a failed arm is none", s.Tests)
	}
	rec.Slices[0].Latency = &result.Latency{Replies: 1, RTTSum: 1, RTT: []byte("garbage")}
	rec.Slices[0].Failed = ""
	if r := row(t, analyze(t, rec, analysis.Options{}), "tcp_lat/1", rec.Slices[0].Arm); r.Unreadable != 1 {
		t.Errorf("%d unreadable histograms, want 1", r.Unreadable)
	}
}

func TestPercentilesOfARow(t *testing.T) {
	tr := truth(recordtest.TCPLat)
	tr.Histograms, tr.Rounds = true, 6
	rec := recordtest.Make(tr)
	ps := row(t, analyze(t, rec, analysis.Options{}), "tcp_lat/1", "host").Latency.Percentiles
	if len(ps) != 4 || math.Abs(ps[0].Value/16_000-1) > 0.05 {
		t.Fatalf("percentiles %+v, want four, the median near 16 us", ps)
	}
	for i, p := range ps {
		if p.Lo > p.Value || p.Hi < p.Value || i > 0 && p.Value < ps[i-1].Value {
			t.Errorf("%+v", p)
		}
	}
	if live := row(t, analyze(t, rec, analysis.Options{Live: true}), "tcp_lat/1", "host").Latency; live.Percentiles != nil {
		t.Error("a live analysis must not take the time for percentiles")
	}
}

func TestToolAgreement(t *testing.T) {
	tr := truth(recordtest.TCPLat)
	tr.Arms = append(tr.Arms, recordtest.Arm{Arm: result.Arm{Name: "qperf:vxlan", Path: "qperf"}, Factor: 1.4 * 1.02})
	s := analyze(t, recordtest.Make(tr), analysis.Options{})
	c := s.Cells[0]
	if len(c.Rows) != 3 || len(c.Agreement) != 1 || s.Tests != 2 {
		t.Fatalf("%d rows, %d agreements, %d tests", len(c.Rows), len(c.Agreement), s.Tests)
	}
	a := c.Agreement[0]
	if a.Tool != "qperf" || a.Arm != "vxlan" || math.Abs(a.Ratio.Value*1.02-1) > 0.01 || a.Ratio.Open || a.Ratio.Rounds != 72 {
		t.Errorf("%+v, want ours 2 %% below qperf", a)
	}
}

func TestStopsOnlyAtLooks(t *testing.T) {
	tr := truth(recordtest.TCPLat)
	tr.Precision, tr.Looks = 0.05, []int{4, 6}
	whole := recordtest.Make(tr)
	perSeries := len(whole.Slices) / 6
	for n := 1; n <= 6; n++ {
		rec := *whole
		rec.Slices = whole.Slices[:n*perSeries]
		s := analyze(t, &rec, analysis.Options{Live: true})
		if s.Looks != 2 || math.Abs(s.Level-0.975) > 1e-12 {
			t.Fatalf("level %v over %d looks", s.Level, s.Looks)
		}
		if want := n == 4 || n == 6; s.Stop != want {
			t.Errorf("after %d series: stop %v (worst half-width %v)", n, s.Stop, s.Worst)
		}
	}
	rec := *whole
	rec.Plan.Precision = 1e-6
	if s := analyze(t, &rec, analysis.Options{Live: true}); s.Stop || s.Precise {
		t.Error("stops though the intervals are too wide")
	}
	rec.Plan.Precision = 0.05
	rec.Plan.Arms = whole.Plan.Arms[:1] // nothing to be precise about
	if s := analyze(t, &rec, analysis.Options{Live: true}); s.Stop || s.Precise {
		t.Error("stops though there is no interval")
	}
	rec.Plan.Arms = whole.Plan.Arms
	rec.Plan.Precision = 0
	if s := analyze(t, &rec, analysis.Options{Live: true}); s.Stop || s.Looks != 1 {
		t.Error("stops though no precision was asked for")
	}
}

// The whole way from slices to verdicts, on a machine with slow drift, sockets
// that differ and spoiled slices: identical paths are not told apart, and the
// interval holds the truth as often as it says.
func TestPipelineKeepsItsPromises(t *testing.T) {
	const runs = 400
	alarms, tests, holds := 0, 0, 0
	for seed := range uint64(runs) {
		tr := truth(recordtest.TCPLat)
		tr.Seed, tr.Noise, tr.Meters, tr.Margin = seed, recordtest.Noisy, false, 1e-6
		tr.Arms[3].Factor = 1.05
		s := analyze(t, recordtest.Make(tr), analysis.Options{Live: true})
		// A family of one, so that Holm does not hide alarms.
		same, slow := row(t, s, "tcp_lat/1", "routed"), row(t, s, "tcp_lat/1", "vxlan")
		tests++
		if v := same.Judged.Verdict; v == stats.Faster || v == stats.Slower {
			alarms++
		}
		if slow.Ratio.Lo <= 1.05 && 1.05 <= slow.Ratio.Hi {
			holds++
		}
	}
	t.Logf("%d of %d identical paths told apart, %d of %d intervals hold the truth", alarms, tests, holds, runs)
	if alarms > runs*5/100 {
		t.Errorf("%d of %d identical paths are told apart", alarms, tests)
	}
	if holds < runs*92/100 || holds > runs*98/100 {
		t.Errorf("%d of %d intervals hold the truth, want about 95 %%", holds, runs)
	}
}

// A series that one machine could not read, or of which its counts never came, must not make the traffic cheaper.
func TestCPUWithoutUnreadSeries(t *testing.T) {
	unread := func(m *result.Meter) bool { return m.Machine == "b" && m.Series < 3 }
	checkCPUWithout(t, func(rec *result.Record) {
		for i := range rec.Meters {
			if m := &rec.Meters[i]; unread(m) {
				m.Values = nil
			}
		}
	})
	checkCPUWithout(t, func(rec *result.Record) {
		rec.Meters = slices.DeleteFunc(rec.Meters, func(m result.Meter) bool { return unread(&m) })
	})
}

func checkCPUWithout(t *testing.T, lose func(*result.Record)) {
	t.Helper()
	rec := recordtest.Make(recordtest.Truth{Seed: 5, Series: 4, Rounds: 4, Noise: recordtest.Quiet, Meters: true,
		Arms: []recordtest.Arm{recordtest.Host(), recordtest.Path("routed", 1.08)}, Cells: []result.Cell{recordtest.TCPLat}})
	rec.Plan.SharedCores = false
	lose(rec)
	s := analyze(t, rec, analysis.Options{Live: true})
	cpu := row(t, s, "tcp_lat/1", "host").CPU
	sum := 0.0
	for _, v := range cpu.Classes {
		sum += v
	}
	if math.Abs(cpu.Cost/8000-1) > 0.03 || math.Abs(sum/8000-1) > 0.03 {
		t.Errorf("%v ns per packet, classes sum %v, want 8000 from the series that both machines read", cpu.Cost, sum)
	}
}

// What slices without a figure lost is counted, and an arm that has too many of
// them is not judged, nor anything by a baseline that has.
func TestBlankSlices(t *testing.T) {
	for _, c := range []struct {
		arm   string
		every int // of so many rounds one is blank
		tests int
		want  stats.Verdict
	}{{"vxlan", 12, 2, stats.Slower}, {"vxlan", 6, 1, stats.CannotTell}, {"host", 12, 2, stats.Slower}, {"host", 6, 0, stats.CannotTell}} {
		rec := recordtest.Make(truth(recordtest.UDPMsg))
		lost := int64(0)
		for i := range rec.Slices {
			s := &rec.Slices[i]
			if s.Arm == c.arm && s.Round%c.every == 0 {
				*s.Stream = result.Stream{SentMessages: 1000, SendNs: 1e6, RecvMessages: 1}
			}
			if s.Arm == c.arm {
				lost += s.Stream.SentMessages - s.Stream.RecvMessages
			}
		}
		s := analyze(t, rec, analysis.Options{})
		if r := row(t, s, "udp_bw/1", c.arm); r.NoFigure != 72/c.every || r.Stream.Lost != lost || r.Failed != "" || r.Value <= 0 {
			t.Errorf("%+v: %d of %d slices without figure, lost %d, want %d", c, r.NoFigure, r.Slices, r.Stream.Lost, lost)
		}
		j := row(t, s, "udp_bw/1", "vxlan").Judged
		if j.Verdict != c.want || (j.Reason == stats.Blank) != (c.want == stats.CannotTell) || s.Tests != c.tests {
			t.Errorf("%+v: judged %+v among %d tests", c, j, s.Tests)
		}
	}
}
