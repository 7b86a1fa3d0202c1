package study

import (
	"slices"

	"github.com/venturi-net/venturi/internal/report/layout"
)

// RealWire is the name of the only wire of a study on real machines.
const RealWire = "real"

// OnMachines gives the study as it is measured between real machines: once, with all of its
// paths, on the wire and the cores that there are.
func (s *Study) OnMachines() *Study {
	real := *s
	real.Cores = "" // those of real machines stand in the machines file
	real.Wires, real.WiresOf = []Wire{{Name: RealWire}}, nil
	real.Tables = slices.Clone(s.Tables)
	for i := range real.Tables {
		if t := &real.Tables[i]; len(t.Wires) > 0 {
			t.Wires = []string{RealWire}
		}
	}
	if real.Hosts == 2 {
		real.Hosts = 0 // as many as there are
	}
	return &real
}

// OnEmulatedCPU gives the study as it is measured where the CPU is emulated: in the time that it
// takes there, with the loads that can be measured there, and with what tables show of these.
func (s *Study) OnEmulatedCPU() *Study {
	slow := *s
	slow.Budget = max(s.Budget, s.EmulatedBudget)
	slow.Loads = slices.DeleteFunc(slices.Clone(s.Loads), func(l Load) bool { return l.RealCPU })
	slow.Tables = nil
	for _, t := range s.Tables {
		t.Figures = slices.DeleteFunc(slices.Clone(t.Figures), func(f layout.Figure) bool { return f.RealCPU })
		if len(t.Figures) > 0 {
			slow.Tables = append(slow.Tables, t)
		}
	}
	return &slow
}
