package bench

import (
	"bytes"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv/comparetest"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Sections are chosen by name, in their own order; what is no section is refused.
func TestFastSections(t *testing.T) {
	for _, c := range []struct {
		only []string
		want string
	}{
		{nil, "plain services peers clusterip siblings ipv6 encapsulations parallel connections rewrites flows churn lossless pods programs"},
		{[]string{"flows", "plain"}, "plain flows"},
	} {
		all, err := FastPathBench{Sections: c.only}.sections()
		var names []string
		for _, s := range all {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("only %v: %s, %v", c.only, got, err)
		}
	}
	for name, c := range map[string]FastPathBench{"unknown": {Sections: []string{"flows", "nope"}}, "short": {Budget: time.Second}} {
		if err := c.Check(t.Context(), new(bytes.Buffer), compare.Host{}); verr.Code(err) != verr.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each limit is of something that is measured, and each comparison belongs to a section.
func TestFastLimits(t *testing.T) {
	for _, l := range fastLimits {
		i := slices.IndexFunc(fastCompares, func(c fastCompare) bool { return c.name == l.compare })
		if i < 0 {
			t.Errorf("limit of %q: no such comparison", l.compare)
			continue
		}
		c := fastCompares[i]
		flows := c.flows
		if flows == nil {
			flows = []int{1}
		}
		if !slices.Contains(c.paths, l.arm) || !slices.Contains(c.loads, l.load) || !slices.Contains(flows, l.flows) {
			t.Errorf("limit of %+v: it is not measured", l)
		}
	}
	for _, c := range fastCompares {
		for _, name := range c.loads {
			if _, err := load.Find(name); err != nil {
				t.Error(err)
			}
		}
		if section, _, _ := strings.Cut(c.name, ","); !slices.ContainsFunc(Sections, func(s Section) bool { return s.Name == section }) {
			t.Errorf("comparison %q is of no section", c.name)
		}
	}
}

// A moment is read round by round: what disturbs the host network and the path alike
// is in no ratio, and rounds without a figure count for nothing.
func TestMoments(t *testing.T) {
	rec := &result.Record{Plan: result.Plan{
		Arms:  []result.Arm{{Name: "host"}, {Name: "p"}},
		Cells: []result.Cell{{Name: "tcp_lat/1", Load: "tcp_lat", Metric: result.OneWay}},
	}}
	add := func(arm string, round int, rtt int64) {
		s := result.Slice{Cell: "tcp_lat/1", Arm: arm, Round: round}
		if rtt > 0 {
			s.Latency = &result.Latency{Replies: 2, RTTSum: 4 * rtt, RTTMedian: rtt}
		} else {
			s.Failed = "gone"
		}
		rec.Slices = append(rec.Slices, s)
	}
	for round, disturbed := range []int64{1, 7, 1, 3, 1} {
		add("p", round, 3000*disturbed)
		add("host", round, 2000*disturbed)
	}
	add("p", 5, 9e6)
	add("host", 5, 0)
	for name, c := range map[string]struct {
		figure figureOf
		path   float64 // of round trips of 3000 times 1, 7, 1, 3, and 1, there and back
	}{"typical": {medianFigure, 1500}, "mean": {meanFigure, 3000 * 13. / 5}} {
		by := comparisonSampler{path: "p", figure: c.figure}
		m, err := by.read(rec)
		if err != nil {
			t.Fatal(err)
		}
		if got := m["tcp_lat"]; math.Abs(got.ratio-math.Log(1.5)) > 1e-9 || math.Abs(got.path-math.Log(c.path)) > 1e-9 {
			t.Errorf("%s: ratio %v, figure %v; want 1.5 and %v", name, math.Exp(got.ratio), math.Exp(got.path), c.path)
		}
	}
	if _, err := (&comparisonSampler{path: "q", figure: meanFigure}).read(rec); err == nil {
		t.Error("a path that was not measured has a figure")
	}
	is := func(path, ratio float64) sample {
		return sample{"l": {math.Log(path), math.Log(ratio)}}
	}
	a, b := []sample{is(4, 3), is(8, 3)}, []sample{is(2, 2), is(4, 2)}
	for name, c := range map[string]struct {
		got  *stats.Ratio
		want float64
	}{"path": {ratioBetween(a, b, "l", false), 2}, "with the host's": {ratioBetween(a, b, "l", true), 1.5}, "to host": {ratioToHost(a, "l"), 3}} {
		if math.Abs(c.got.Value-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, c.got.Value, c.want)
		}
	}
	if r := ratioToHost(nil, "l"); r != nil || meetsLimit(r, 1, true) {
		t.Error("nothing meets a limit")
	}
}

// Flows are added to a table and taken out again, and one that went missing is told.
func TestBallast(t *testing.T) {
	testenv.Root(t)
	table, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 16, ValueSize: 56, MaxEntries: 1 << 15, Flags: 1 /* BPF_F_NO_PREALLOC */})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	b := &ballast{table: table}
	empty, err := b.memory()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{10000, 3, 5000, 0} {
		if err := b.hold(n); err != nil {
			t.Fatal(err)
		}
		found := 0
		var k bpf.FlowKey
		var v bpf.Flow
		for all := table.Iterate(); all.Next(&k, &v); found++ {
			if v.Epoch == 0 || v.Used != farTick {
				t.Fatalf("flow %+v looks dead", v)
			}
		}
		if now, err := b.memory(); err != nil || found != n || n == 10000 && now < empty+60*10000 {
			t.Errorf("%d flows and %d bytes where %d are held; empty: %d bytes, %v", found, now, n, empty, err)
		}
	}
	if err := b.hold(100); err != nil {
		t.Fatal(err)
	}
	if err := table.Delete(ballastKeys(42, 1)[0]); err != nil {
		t.Fatal(err)
	}
	if err := b.hold(0); err == nil || !strings.Contains(err.Error(), "flow 42 ") {
		t.Errorf("a flow that went missing: %v", err)
	}
}

// TestFastShort runs the sections that VENTURI_BENCH_FAST names (or all, if it is
// "all"), as short as they can be.
func TestFastShort(t *testing.T) {
	only := os.Getenv("VENTURI_BENCH_FAST")
	if only == "" {
		t.Skip("it takes minutes: set VENTURI_BENCH_FAST=all")
	}
	c := FastPathBench{Budget: minBudget, Seed: 1}
	if only != "all" {
		c.Sections = strings.Split(only, ",")
	}
	var out bytes.Buffer
	err := c.Check(t.Context(), &out, comparetest.Host(t))
	t.Logf("\n%s", out.String())
	// That limits are missed on this machine is no error; that they were not measured is.
	if missed := new(verr.Error); err != nil && (!errors.As(err, &missed) || missed.Code != verr.Failed) {
		t.Fatal(err)
	}
}
