package bench

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv/comparetest"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/lab"
)

// Flows that send in turn are all learned, and then all carried.
func TestLive(t *testing.T) {
	h := comparetest.Host(t)
	if answer, err := feature.Programs.Ask(); answer != feature.Yes {
		t.Skipf("this kernel has no fast path: %v", err)
	}
	l, err := lab.Up(t.Context(), lab.Options{Name: h.LabName, Paths: []string{"host", "vxlan+fast"}, Program: h.Program})
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*flowSet
	defer func() {
		for _, end := range ends {
			if end != nil {
				err = errors.Join(err, end.Close())
			}
		}
		if err := errors.Join(err, l.Down()); err != nil {
			t.Error(err)
		}
	}()
	for i, arm := range l.Arms {
		if ends[i], err = openFlowSet(arm); err != nil {
			t.Fatal(err)
		}
	}
	if err := ends[1].learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pins := range l.Arms[1].Pins {
		if table, err := fastpath.ReadTable(pins); err != nil || float64(table.Flows) < carriedShare*liveFlows {
			t.Errorf("%s: %d flows in the table, %v; want nearly %d", pins, table.Flows, err, liveFlows)
		}
	}
	m, err := measureFlowSets(ends, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if got := m[roundRobinLoad]; math.IsNaN(got.ratio) || math.IsInf(got.ratio, 0) || got.path < math.Log(1000) {
		t.Errorf("a round trip of %v ns, %v times that of the host network", math.Exp(got.path), math.Exp(got.ratio))
	}
}
