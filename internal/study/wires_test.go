package study

import (
	"slices"
	"testing"

	"github.com/venturi-net/venturi/result"
)

// A record of a wire that is none of the study's is not shown as one of them.
func TestOtherWire(t *testing.T) {
	s, err := Parse("wired.yaml", []byte(wired))
	if err != nil {
		t.Fatal(err)
	}
	plan := result.Plan{SharedCores: true, Wire: "tso=off,tunnel-tso=off,gro=off,csum=off,mtu=1500"}
	if w, ok := s.WireOf(plan); ok {
		t.Errorf("it is taken for %+v", w)
	}
	w := s.OtherWire(plan)
	if l := s.Layout(w); w.Name != plan.Wire || !slices.Equal(l.Tables[0].Paths, []string{"host", "routed", "vxlan"}) {
		t.Errorf("wire %+v with the tables %+v", w, l.Tables)
	}
	plan.SharedCores = false
	if w := s.OnMachines().OtherWire(plan); w.Name != RealWire {
		t.Errorf("on real machines: %+v", w)
	}
	s.Wires = []Wire{{}}
	plan.SharedCores = true
	if w := s.OtherWire(plan); w.Name != "" {
		t.Errorf("of a study without named wires: %+v", w)
	}
}
