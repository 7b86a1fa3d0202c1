package analysis_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/result"
)

// byOtherClocks gives a record as it would be if the clock of the client's machine, a, and that of
// the server's, b, were faster by these shares.
func byOtherClocks(rec *result.Record, client, server float64) *result.Record {
	stretch := func(ns *int64, by float64) { *ns = int64(math.Round(float64(*ns) * (1 + by))) }
	for i := range rec.Slices {
		s := &rec.Slices[i]
		stretch(&s.Start, client)
		stretch(&s.Elapsed, client)
		if s.Latency != nil {
			stretch(&s.Latency.RTTSum, client)
			stretch(&s.Latency.RTTMedian, client)
		}
		if s.Stream != nil {
			stretch(&s.Stream.SendNs, client)
			stretch(&s.Stream.RateNs, server)
		}
	}
	for i := range rec.Meters {
		m, by := &rec.Meters[i], client
		if m.Machine == "b" {
			by = server
		}
		stretch(&m.WallNs, by)
		if m.Name == "cpu" {
			m.Values = maps.Clone(m.Values)
			for key, ns := range m.Values {
				stretch(&ns, by)
				m.Values[key] = ns
			}
		}
	}
	return rec
}

// Clocks that drift apart by 500 ppm, the most that a kernel lets one be adjusted by, change no
// ratio and no verdict: each figure of a path is by the same clock as the baseline's. A figure
// itself is off by what its clock is, and by no more: no clock is compared with another.
func TestDriftOfClocks(t *testing.T) {
	const drift, rounding = 500e-6, 1e-4 // times are whole ns
	tr := truth(recordtest.TCPLat, recordtest.UDPLat, recordtest.TCPBw, recordtest.UDPBw, recordtest.UDPMsg, recordtest.TCPRR, recordtest.TCPCRR, recordtest.Probe, recordtest.Ping)
	record := func() *result.Record {
		rec := recordtest.Make(tr)
		rec.Plan.SharedCores = false // two machines
		return rec
	}
	right := analyze(t, record(), analysis.Options{})
	for _, by := range []struct{ client, server float64 }{{drift, -drift}, {-drift, drift}} {
		skewed := analyze(t, byOtherClocks(record(), by.client, by.server), analysis.Options{})
		differ, machines := 0, 0
		for _, c := range right.Cells {
			for _, want := range c.Rows {
				got := row(t, skewed, c.Cell.Name, want.Arm.Name)
				near := func(what string, a, b, most float64) {
					t.Helper()
					if math.Abs(a-b) > most*math.Abs(b) {
						t.Errorf("%s of %s, clocks off by %v: %v is %v", what, want.Arm.Name+" in "+c.Cell.Name, by, b, a)
					}
				}
				near("the figure", got.Value, want.Value, drift+rounding)
				if got.Value != want.Value {
					differ++
				}
				if want.Ratio != nil {
					near("the ratio", got.Ratio.Value, want.Ratio.Value, rounding)
					near("its lower end", got.Ratio.Lo, want.Ratio.Lo, rounding)
					near("its upper end", got.Ratio.Hi, want.Ratio.Hi, rounding)
				}
				if want.Judged != nil && got.Judged.Verdict != want.Judged.Verdict {
					t.Errorf("%s of %s is %q, and was %q", c.Cell.Name, want.Arm.Name, got.Judged.Verdict, want.Judged.Verdict)
				}
				if want.CPU == nil {
					continue
				}
				if machines = max(machines, len(want.CPU.ByMachine)); got.CPU == nil {
					t.Fatalf("%s of %s has no CPU time", c.Cell.Name, want.Arm.Name)
				}
				near("CPU time", got.CPU.Cost, want.CPU.Cost, drift+rounding)
				if want.CPU.Ratio != nil {
					near("the ratio of CPU time", got.CPU.Ratio.Value, want.CPU.Ratio.Value, rounding)
				}
				for _, machine := range slices.Collect(maps.Keys(want.CPU.ByMachine)) {
					near("CPU time on "+machine, got.CPU.ByMachine[machine], want.CPU.ByMachine[machine], drift+rounding)
				}
				for core, share := range want.CPU.ByCore {
					near("busy share of "+core, got.CPU.ByCore[core], share, rounding)
				}
			}
		}
		if differ < len(right.Cells) || machines != 2 {
			t.Errorf("only %d figures differ at all, and there is CPU time of %d machines", differ, machines)
		}
	}
}
