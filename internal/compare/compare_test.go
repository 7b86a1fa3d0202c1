package compare

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

func testHost(t *testing.T, w Watch) Host {
	t.Helper()
	testenv.Root(t)
	return Host{Version: "test", LabName: testenv.LabName(), Program: testenv.Program(t), Watch: w}
}

// short is a request that is over in some seconds.
func short(t *testing.T, loads ...string) Request {
	return Request{Loads: loads, Series: 3, Rounds: 4, Out: filepath.Join(t.TempDir(), "run"), Wait: true}
}

func resolve(t *testing.T, q Request) *Resolved {
	t.Helper()
	r, err := q.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func analyze(t *testing.T, rec *result.Record) *analysis.Summary {
	t.Helper()
	s, err := analysis.Analyze(rec, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestDo runs the default paths and loads, reads the record back, and wants
// figures everywhere and the machine as it was.
func TestDo(t *testing.T) {
	h := testHost(t, deaf{})
	before := testenv.Snapshot(t)
	q := short(t)
	rec, file, err := Do(t.Context(), resolve(t, q), h)
	if err != nil {
		t.Fatal(err)
	}
	if after := testenv.Snapshot(t); after != before {
		t.Errorf("the machine is not as it was.\nbefore:\n%s\nafter:\n%s", before, after)
	}
	read, err := result.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(read.Slices) != len(rec.Slices) || len(read.Slices) != 4*4*3*4 || read.End.Reason != result.Complete {
		t.Errorf("%d slices on disk, %d in memory, ended %q", len(read.Slices), len(rec.Slices), read.End.Reason)
	}
	if len(read.Facts) != 2 || read.Facts[0].Congestion != "reno" || len(read.Facts[0].Devices) == 0 {
		t.Errorf("facts: %+v", read.Facts)
	}
	s := analyze(t, read)
	if len(s.Cells) != 4 {
		t.Fatalf("%d cells", len(s.Cells))
	}
	for _, c := range s.Cells {
		if len(c.Rows) != 3 || c.Floor == nil {
			t.Errorf("%s: %d rows, floor %v", c.Cell.Name, len(c.Rows), c.Floor)
		}
		for _, r := range c.Rows {
			if r.Value <= 0 || r.CPU == nil || r.CPU.Cost <= 0 {
				t.Errorf("%s %s: figure %v, CPU %+v", c.Cell.Name, r.Arm.Name, r.Value, r.CPU)
			}
		}
	}
}

// TestServices wants the rules of Services in the facts, and figures all the same.
func TestServices(t *testing.T) {
	h := testHost(t, deaf{})
	q := short(t, "udp_lat")
	q.Paths, q.Services = []string{"host", "vxlan"}, 50
	rec, _, err := Do(t.Context(), resolve(t, q), h)
	if err != nil {
		t.Fatal(err)
	}
	f := rec.Facts[0]
	if f.NetfilterRules < 4*50 || !f.Conntrack {
		t.Errorf("%d rules, conntrack %v", f.NetfilterRules, f.Conntrack)
	}
	if s := analyze(t, rec); s.Cells[0].Rows[1].Value <= 0 {
		t.Errorf("no figure: %+v", s.Cells[0].Rows[1])
	}
}

// TestLoss drops every 3,000th datagram on one of two like paths; the other one
// carries the same rule and drops none. The loss must be told, and must not
// move the ratio: its interval must not lie beyond what is the same. A machine
// that does other work can move it, so there are three tries.
func TestLoss(t *testing.T) {
	const tries = 3
	for try := 1; ; try++ {
		row := lossy(t)
		if row.Latency.Lost == 0 {
			t.Errorf("no loss was told among %d requests", row.Latency.Requests)
		}
		t.Logf("try %d: ratio %.4f [%.4f, %.4f], %d of %d lost", try,
			row.Ratio.Value, row.Ratio.Lo, row.Ratio.Hi, row.Latency.Lost, row.Latency.Requests)
		const same = 0.03
		if row.Ratio.Lo <= 1+same && row.Ratio.Hi >= 1-same {
			return
		}
		if try == tries {
			t.Fatalf("loss moved the ratio to %.4f [%.4f, %.4f]", row.Ratio.Value, row.Ratio.Lo, row.Ratio.Hi)
		}
	}
}

func lossy(t *testing.T) analysis.Row {
	h := testHost(t, deaf{})
	q := short(t, "udp_lat")
	q.Paths, q.NoHost, q.Series, q.Rounds = []string{"routed", "routed"}, true, 8, 20
	s, err := Open(t.Context(), resolve(t, q), h)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	testenv.Lose(t, s.lab.Arms[0].Server().Namespace, 0)
	testenv.Lose(t, s.lab.Arms[1].Server().Namespace, 3_000)
	rec, err := s.Compare(t.Context(), resolve(t, q), func(result.Line) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return analyze(t, rec).Cells[0].Rows[1]
}

// breaker takes the wire of a path's pod down when the second series begins.
type breaker struct {
	deaf
	t   *testing.T
	lab string
}

func (b *breaker) Event(e experiment.Event) {
	if e.Series != 1 {
		return
	}
	testenv.InNetns(b.t, "/run/netns/venturi."+b.lab+".m2.vxlan", func() error {
		links, err := netlink.LinkList()
		for _, l := range links {
			if l.Type() == "veth" {
				err = errors.Join(err, netlink.LinkSetDown(l))
			}
		}
		return err
	})
}

// TestArmDies breaks one path in the middle: it is named, the others are
// measured to the end.
func TestArmDies(t *testing.T) {
	b := &breaker{t: t}
	h := testHost(t, b)
	b.lab = h.LabName
	q := short(t, "udp_lat")
	armDies(t, q, h)
}

// TestArmDiesBeside does so where the path carries a stream beside its load.
func TestArmDiesBeside(t *testing.T) {
	b := &breaker{t: t}
	h := testHost(t, b)
	b.lab = h.LabName
	q := short(t, "probe")
	q.Background = &result.BackgroundLoad{Load: "tcp_bw", Size: 1 << 14, Flows: 1, Rate: 1e8, Cores: experiment.SameCores}
	armDies(t, q, h)
}

// armDies measures while vxlan breaks after the first series.
func armDies(t *testing.T, q Request, h Host) {
	t.Helper()
	rec, _, err := Do(t.Context(), resolve(t, q), h)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, w := range rec.Warnings {
		if w.Code == "arm-failed" && w.Arm == "vxlan" {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d warnings about vxlan, want 1: %+v", failed, rec.Warnings)
	}
	s := analyze(t, rec)
	for _, r := range s.Cells[0].Rows {
		want := 12
		if r.Arm.Name == "vxlan" {
			want = 5 // four of the first series, and the one that failed
		}
		if r.Slices != want {
			t.Errorf("%s has %d slices, want %d", r.Arm.Name, r.Slices, want)
		}
	}
}

// TestLock wants a second run refused, with the name of the first.
func TestLock(t *testing.T) {
	h := testHost(t, deaf{})
	unlock, err := lab.LockMeasure(t.Context(), true, "the first run", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	q := short(t, "udp_lat")
	q.Wait = false
	_, _, err = Do(t.Context(), resolve(t, q), h)
	if verr.Code(err) != verr.Busy || !strings.Contains(err.Error(), "the first run") {
		t.Errorf("error %v", err)
	}
	if files, _ := filepath.Glob(q.Out + "*"); len(files) > 0 {
		t.Errorf("a refused run left %v", files)
	}
}

// TestPrecision stops at the first look at which the intervals are narrow
// enough. Which look that is, is the machine's noise; so the record is asked.
func TestPrecision(t *testing.T) {
	h := testHost(t, deaf{})
	q := short(t, "udp_lat")
	q.Paths, q.Series, q.Precision = []string{"host", "routed"}, 12, 0.49
	rec, _, err := Do(t.Context(), resolve(t, q), h)
	if err != nil {
		t.Fatal(err)
	}
	reason, series := result.Complete, q.Series
	for _, look := range rec.Plan.Looks {
		until := *rec
		until.Slices = slices.DeleteFunc(slices.Clone(rec.Slices), func(s result.Slice) bool { return s.Series >= look })
		sum, err := analysis.Analyze(&until, analysis.Options{Live: true})
		if err != nil {
			t.Fatal(err)
		}
		if sum.Stop && look < q.Series {
			reason, series = result.Precise, look
			break
		}
	}
	if len(rec.Plan.Looks) < 2 || rec.End.Reason != reason || rec.End.Series != series {
		t.Errorf("ended %q after %d series of looks %v, want %q after %d", rec.End.Reason, rec.End.Series, rec.Plan.Looks, reason, series)
	}
}
