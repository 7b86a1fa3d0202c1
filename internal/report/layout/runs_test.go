package layout

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/result"
)

// Runs are the first three series, whatever came after, and have no verdict.
func TestRuns(t *testing.T) {
	rec := oneCell()
	for i := range rec.Slices {
		s := &rec.Slices[i]
		v := map[string][]int64{"ovs": {1, 2, 3}, "bgp": {4, 4, 10}}[s.Arm]
		if v == nil || s.Series >= 3 {
			continue
		}
		s.Stream.RateBytes, s.Stream.RateNs = v[s.Series]*1e9/8, 1e9
	}
	l := oneTable()
	l.Tables[0].Figures = []Figure{
		{Load: "tcp_bw", Sizes: []int{64 << 10}, Flows: []int{1}, Unit: "Gb/s"},
		{Load: "tcp_bw", Sizes: []int{64 << 10}, Flows: []int{1}, Unit: "Gb/s", Runs: true, Name: "three runs"},
	}
	s, err := newSource(Wired{Record: rec}, l)
	if err != nil {
		t.Fatal(err)
	}
	g := sources{s}.fill(l.Tables[0])
	found := map[string]string{}
	for i, row := range g.rows {
		found[row[0]] = g.cells[i][1].text()
	}
	for row, want := range map[string]string{"ovs": "1.00, 2.00, 3.00: 2.00", "bgp": "4.00, 4.00, 10.0: 6.00", "bgp/ovs": "3.00"} {
		if found[row] != want {
			t.Errorf("%s shows %q, want %q", row, found[row], want)
		}
	}
	var out bytes.Buffer
	if err := Write(&out, []Wired{{Record: rec}}, l, view.Options{Width: 200}); err != nil || !strings.Contains(out.String(), "Of 3 runs stand") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// A record of fewer series has no three runs, and says nothing in their place.
func TestTooFewRuns(t *testing.T) {
	rec := oneCell()
	var some []result.Slice
	for _, s := range rec.Slices {
		if s.Series < 2 {
			some = append(some, s)
		}
	}
	rec.Slices = some
	l := oneTable()
	s, err := newSource(Wired{Record: rec}, l)
	if err != nil {
		t.Fatal(err)
	}
	e := entry{Path: "ovs", Load: "tcp_bw", Size: 64 << 10, Flows: 1, Runs: &Runs{unit: "Gb/s"}, inTable: true}
	s.entry(&e)
	if e.measured || e.text() != unit.NoFigure {
		t.Errorf("%+v", e)
	}
	if v := average(nil); v != 0 || math.IsNaN(v) {
		t.Errorf("average of none is %v", v)
	}
}
