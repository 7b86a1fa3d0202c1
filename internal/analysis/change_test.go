package analysis_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

// later is a record of the same machine on another day: everything takes slower
// times as long, and vxlan a share more than that.
func later(seed uint64, slower, more float64) *result.Record {
	tr := truth(recordtest.TCPLat, recordtest.TCPBw)
	tr.Seed, tr.Meters, tr.Series = seed, false, 8
	for i := range tr.Arms {
		if tr.Arms[i].Factor == 0 {
			tr.Arms[i].Factor = 1
		}
		tr.Arms[i].Factor *= slower
	}
	tr.Arms[3].Factor *= more
	return recordtest.Make(tr)
}

// A machine that got slower changes nothing; a path that did is found.
func TestCompare(t *testing.T) {
	same, found := 0, 0
	const pairs = 20
	for seed := range uint64(pairs) {
		before := later(2*seed, 1, 1)
		for _, more := range []float64{1, 1.05} {
			c, err := analysis.Compare(before, later(2*seed+1, 1.3, more))
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Cells) != 2 || len(c.Cells[0].Rows) != 2 || c.Tests != 4 || len(c.Differences) > 0 || len(c.Missing) > 0 {
				t.Fatalf("%+v", c)
			}
			vxlan := c.Cells[0].Rows[1]
			switch {
			case more == 1 && vxlan.Judged.Verdict == stats.Equivalent:
				same++
			case more > 1 && vxlan.Judged.Verdict == stats.Slower:
				found++
			}
			if routed := c.Cells[1].Rows[0]; routed.Judged.Verdict == stats.Slower || routed.Judged.Verdict == stats.Faster {
				t.Errorf("seed %d: routed is %q by %v", seed, routed.Judged.Verdict, routed.Ratio)
			}
		}
	}
	if same < 19 || found < 18 {
		t.Errorf("of %d pairs, %d equal ones are the same, and %d with 5 %% more are slower", pairs, same, found)
	}
}

func TestCompareTells(t *testing.T) {
	before, after := later(1, 1, 1), later(2, 1, 1)
	for i := range after.Facts {
		after.Facts[i].Kernel, after.Facts[i].CPUModel = "6.12.0", "Another CPU"
	}
	after.Plan.Arms[3].Options = "csum=off"
	after.Plan.Cells = after.Plan.Cells[:1]
	c, err := analysis.Compare(before, after)
	if err != nil {
		t.Fatal(err)
	}
	want := []analysis.Difference{
		{What: "CPU of a", Before: "Example CPU @ 2.50GHz", After: "Another CPU", Machine: true},
		{What: "kernel of a", Before: "6.1.0-18-amd64", After: "6.12.0"},
		{What: "options of vxlan", Before: "none", After: "csum=off"},
	}
	if !slices.Equal(c.Differences, want) {
		t.Errorf("differences %+v", c.Differences)
	}
	if !slices.Equal(c.Missing, []string{"tcp_bw/65536"}) {
		t.Errorf("missing %q", c.Missing)
	}
}

// A path that died, or that no longer holds its rate, is no path that nothing is said of.
func TestCompareWithoutFigure(t *testing.T) {
	fails := func(rec *result.Record) *result.Record {
		for i := range rec.Slices {
			if s := &rec.Slices[i]; s.Arm == "vxlan" && s.Cell == "tcp_lat/1" {
				s.Failed, s.Latency = "no answer", nil
			}
		}
		return rec
	}
	for want, records := range map[string][2]*result.Record{
		"there is no ratio after":   {later(1, 1, 1), fails(later(2, 1, 1))},
		"there was no ratio before": {fails(later(1, 1, 1)), later(2, 1, 1)},
		"neither run has a ratio":   {fails(later(1, 1, 1)), fails(later(2, 1, 1))},
	} {
		c, err := analysis.Compare(records[0], records[1])
		if err != nil {
			t.Fatal(err)
		}
		if u := c.Uncompared; len(u) != 1 || u[0].Path != "vxlan" || u[0].Cell.Name != "tcp_lat/1" || u[0].Reason != want {
			t.Errorf("%+v, want %q", u, want)
		}
		if len(c.Cells[0].Rows) != 1 || len(c.Cells[1].Rows) != 2 {
			t.Errorf("%+v", c.Cells)
		}
	}
	paced := func(share float64) *result.Record {
		tr := truth(recordtest.UDPAt)
		tr.Arms[3].Loss = share
		return recordtest.Make(tr)
	}
	c, err := analysis.Compare(paced(0), paced(0.1))
	if err != nil {
		t.Fatal(err)
	}
	if u := c.Uncompared; len(u) != 1 || u[0].Path != "vxlan" || u[0].Reason != "there is no ratio after" {
		t.Errorf("of a path that does not hold its rate: %+v", u)
	}
}

// Nor is a load that one run has planned and never measured.
func TestCompareUnmeasured(t *testing.T) {
	cut := func(rec *result.Record) *result.Record {
		rec.Slices = slices.DeleteFunc(rec.Slices, func(s result.Slice) bool { return s.Cell == "tcp_bw/65536" })
		return rec
	}
	for want, records := range map[string][2]*result.Record{
		"there is no ratio after":   {later(1, 1, 1), cut(later(2, 1, 1))},
		"there was no ratio before": {cut(later(1, 1, 1)), later(2, 1, 1)},
	} {
		c, err := analysis.Compare(records[0], records[1])
		if err != nil {
			t.Fatal(err)
		}
		if u := c.Uncompared; len(u) != 2 || u[0].Path != "routed" || u[1].Path != "vxlan" || u[1].Cell.Name != "tcp_bw/65536" || u[1].Reason != want {
			t.Errorf("%+v, want %q", u, want)
		}
		if len(c.Cells) != 1 || len(c.Missing) > 0 {
			t.Errorf("%+v, missing %q", c.Cells, c.Missing)
		}
	}
}

func TestCompareRefuses(t *testing.T) {
	before, emulated, other, against := later(1, 1, 1), later(2, 1, 1), later(3, 1, 1), later(4, 1, 1)
	for i := range against.Plan.Arms {
		if a := &against.Plan.Arms[i]; a.Role == result.RoleBaseline {
			a.Name = "pod"
		}
	}
	emulated.Facts[0].Emulated = true
	for i := range other.Plan.Cells {
		other.Plan.Cells[i].Name += "/other"
	}
	for rec, want := range map[*result.Record]error{
		emulated: analysis.ErrMixedEmulation, against: analysis.ErrOtherBaseline, other: analysis.ErrNothingInCommon, {}: analysis.ErrNoPlan,
	} {
		if _, err := analysis.Compare(before, rec); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// What either machine could not tell apart, or what was too noisy, gets no verdict.
func TestCompareOfNoise(t *testing.T) {
	before := later(1, 1, 1)
	tr := truth(recordtest.TCPLat, recordtest.TCPBw)
	tr.Meters, tr.Arms[1].Factor = false, 1.2
	c, err := analysis.Compare(before, recordtest.Make(tr))
	if err != nil {
		t.Fatal(err)
	}
	for _, cell := range c.Cells {
		for _, r := range cell.Rows {
			if r.Judged.Reason != stats.BadFloor {
				t.Errorf("%s, %s: %+v", cell.Cell.Name, r.Path, r.Judged)
			}
		}
	}
}

// The CPU time of a stream with a rate is compared over series, as in a report.
func TestCompareAtRate(t *testing.T) {
	records := map[float64]*result.Record{}
	for i, factor := range []float64{1.2, 1.5} {
		tr := truth(recordtest.UDPAt)
		tr.Seed, tr.Arms[2].CPUFactor, tr.Arms[3].CPUFactor = uint64(i+1), 1, factor
		records[factor] = recordtest.Make(tr)
	}
	c, err := analysis.Compare(records[1.2], records[1.5])
	if err != nil {
		t.Fatal(err)
	}
	if rows := c.Cells[0].Rows; len(rows) != 2 || rows[0].Judged.Verdict != stats.Equivalent || rows[1].Judged.Verdict != stats.Slower {
		t.Errorf("%+v", rows)
	}
}

// pair is a record of two machines of their own, with a card each.
func pair(seed uint64, slower, more float64) *result.Record {
	rec := later(seed, slower, more)
	rec.Plan.SharedCores = false
	for i := range rec.Plan.Arms {
		rec.Plan.Arms[i].FromDevice, rec.Plan.Arms[i].ToDevice = "eth0", "ens5"
	}
	for i, device := range []string{"eth0", "ens5"} {
		f := &rec.Facts[i]
		f.BootID = []string{"one", "two"}[i]
		f.Devices = []result.Device{{Namespace: f.Machine, Name: device, MTU: 1500, Qdisc: "fq", Features: map[string]bool{"gro": true}}}
	}
	return rec
}

// Two runs of one pair of machines, which are slower on the second day, differ in the path that is.
func TestCompareOfMachines(t *testing.T) {
	c, err := analysis.Compare(pair(1, 1, 1), pair(2, 1.3, 1.1))
	if err != nil {
		t.Fatal(err)
	}
	rows := c.Cells[0].Rows
	if rows[0].Judged.Verdict != stats.Equivalent || rows[1].Judged.Verdict != stats.Slower || len(c.Differences) > 0 {
		t.Errorf("%+v, differences %+v", rows, c.Differences)
	}
	if change := rows[1].Ratio.Value; change < 1.05 || change > 1.15 {
		t.Errorf("the path takes %v times as long as before, against the host; want 1.1", change)
	}
}

// What matters of the second machine and of the cards is told, and what makes another pair of it
// stands apart.
func TestCompareTellsOfMachines(t *testing.T) {
	before, after := pair(1, 1, 1), pair(2, 1, 1)
	b := &after.Facts[1]
	b.Kernel, b.CPUs, b.NetfilterRules = "6.12.0", 16, 40
	b.Devices[0].MTU, b.Devices[0].Features = 9000, map[string]bool{"gro": false}
	after.Plan.Arms[0].FromDevice = "eth1"
	c, err := analysis.Compare(before, after)
	if err != nil {
		t.Fatal(err)
	}
	cpus := before.Facts[1].CPUs
	want := []analysis.Difference{
		{What: "number of CPUs of b", Before: fmt.Sprint(cpus), After: "16", Machine: true},
		{What: "kernel of b", Before: "6.1.0-18-amd64", After: "6.12.0"},
		{What: "netfilter rules of b", Before: "0", After: "40"},
		{What: "devices of " + before.Plan.Arms[0].Name, Before: "eth0 ens5", After: "eth1 ens5", Machine: true},
		{What: "MTU of ens5 of b", Before: "1500", After: "9000"},
		{What: "gro of ens5 of b", Before: "on", After: "off"},
	}
	if !slices.Equal(c.Differences, want) {
		t.Errorf("differences %+v", c.Differences)
	}
	after.Facts[1].Machine = "c"
	if c, err = analysis.Compare(before, after); err != nil || !slices.Contains(c.Differences, analysis.Difference{What: "machine 2", Before: "b", After: "c", Machine: true}) {
		t.Errorf("another machine: %v, differences %+v", err, c.Differences)
	}
}
