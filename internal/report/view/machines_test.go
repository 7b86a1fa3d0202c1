package view

import (
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/result"
)

// twoFacts is a record of two machines that are alike.
func twoFacts() *result.Record {
	facts := func(name string) result.Facts {
		return result.Facts{Machine: name, Kernel: "6.12", CPUModel: "X", CPUs: 8, Devices: []result.Device{
			{Namespace: name, Name: "eth0", MTU: 1500, Features: map[string]bool{"gro": true}},
			{Namespace: "red", Name: "eth0", MTU: 900},
		}, Sysctls: map[string]string{"net.core.rmem_max": "1\t2"}}
	}
	return &result.Record{Facts: []result.Facts{facts("a"), facts("b")}, Plan: result.Plan{Arms: []result.Arm{{Name: "host", FromDevice: "eth0", ToDevice: "eth0"}}}}
}

// TestDifferences: what two machines differ in is named, and nothing else.
func TestDifferences(t *testing.T) {
	rec := twoFacts()
	if got := differences(rec, [2]int{0, 1}); len(got) > 0 {
		t.Errorf("two that are alike differ in %q", got)
	}
	rows := machineRows(rec)
	if len(rows) != 3 || !strings.HasPrefix(rows[1][1], "b: X") || !strings.HasPrefix(rows[2][1], "nothing of what") {
		t.Errorf("%q", rows)
	}
	b := &rec.Facts[1]
	b.Kernel, b.CPUs, b.Governor = "6.1", 4, "powersave"
	b.ClockAhead = int64(24 * time.Hour)
	b.Devices[0].MTU, b.Devices[0].Features["gro"] = 9000, false
	b.Sysctls["net.core.rmem_max"] = "1 3"
	want := "kernel 6.12 and 6.1; CPUs 8 and 4; governor none and powersave; clocks 24h0m0s apart, which changes no figure; " +
		"eth0's MTU 1500 and 9000; eth0's gro on and off; net.core.rmem_max 1 2 and 1 3"
	if got := strings.Join(differences(rec, [2]int{0, 1}), "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	rec.Plan.SharedCores = true
	if rows := machineRows(rec); len(rows) != 2 {
		t.Errorf("a lab: %q", rows)
	}
}

// TestDifferencesOfPairs: each path's machines are compared with each other.
func TestDifferencesOfPairs(t *testing.T) {
	rec := twoFacts()
	vm := twoFacts().Facts
	vm[0].Machine, vm[1].Machine, vm[1].Kernel = "v1", "v2", "6.1"
	rec.Facts = append(rec.Facts, vm...)
	rec.Plan.Arms = append(rec.Plan.Arms, result.Arm{Name: "vm", FromMachine: "v1", ToMachine: "v2"})
	rows := machineRows(rec)
	if len(rows) != 6 || !strings.HasPrefix(rows[4][1], "a, b: nothing of what") || rows[5][1] != "v1, v2: kernel 6.12 and 6.1" {
		t.Errorf("%q", rows)
	}
}

// TestMachinesApart: what machines that do not share cores counted is told of each, and what is
// alike for all is not.
func TestMachinesApart(t *testing.T) {
	row := analysis.Row{
		Arm: result.Arm{Name: "vxlan"}, Counters: map[string]int64{"links/rx_dropped": 7, "softnet/squeezed": 1},
		CPU: &analysis.CPU{Classes: map[string]float64{"user": 10, "softirq": 10}, Steal: 0.2},
	}
	want := func(classes, counted, stolen string) {
		t.Helper()
		c := &analysis.Cell{Rows: []analysis.Row{row}}
		if got := ClassText(row.CPU); got != classes {
			t.Errorf("classes %q, want %q", got, classes)
		}
		if got := strings.ReplaceAll(trouble(c), NoBreak, " "); got != counted {
			t.Errorf("counters %q, want %q", got, counted)
		}
		if got := strings.Join(remarks(&result.Record{}, &analysis.Summary{Cells: []analysis.Cell{*c}}, false), " "); !strings.Contains(got, stolen) {
			t.Errorf("remarks %q, want %q", got, stolen)
		}
	}
	want("softirq 50 %, user 50 %, steal 20 % of a core beside it", "counted: vxlan 1 softirq squeezes, 7 device receive drops", "up to 20 % of a core's time (steal)")
	row.MachineCounters = map[string]map[string]int64{"a": {"links/rx_dropped": 3}, "b": {"links/rx_dropped": 4, "softnet/squeezed": 1}}
	row.CPU.MachineClasses = map[string]map[string]float64{"a": {"user": 10}, "b": {"softirq": 10}}
	row.CPU.MachineSteal = map[string]float64{"b": 0.2}
	want("a: user 100 %; b: softirq 100 %, steal 20 % of a core beside it",
		"counted: vxlan 1 softirq squeezes on b, 3 device receive drops on a, 4 device receive drops on b", "up to 20 % of a core's time on b (steal)")
}
