package agent

import (
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/machine"
	"github.com/venturi-net/venturi/internal/meter"
	"github.com/venturi-net/venturi/internal/verr"
)

func clientEnd(a load.Arm) machine.Endpoint { return a.From }
func serverEnd(a load.Arm) machine.Endpoint { return a.To }

// open opens the meters for this machine's ends of a plan's arms. Without
// meters the recorder does nothing.
func (s *server) open(plan load.Plan, names []string, end func(load.Arm) machine.Endpoint) (*meter.Recorder, error) {
	rec, err := meter.NewRecorder(s.machine, names, meter.Setup{Arms: meterArms(plan, end)})
	if err != nil {
		return nil, verr.Wrap(verr.Missing, "cannot meter on "+s.machine, err, "leave that meter out")
	}
	return rec, nil
}

// meterArms says where the meters look for an arm: at the namespace of its
// end, and for devices also at the machine's own, where tunnels and the wire
// are; at one namespace once, whatever it is called.
func meterArms(plan load.Plan, end func(load.Arm) machine.Endpoint) []meter.Arm {
	arms := make([]meter.Arm, len(plan.Arms))
	for i, a := range plan.Arms {
		ns := end(a).Namespace
		arms[i] = meter.Arm{Name: a.Name, Ends: []string{ns}, Crossed: []string{ns}}
		if !isOwn(ns) {
			arms[i].Crossed = append(arms[i].Crossed, "")
		}
	}
	return arms
}

// isOwn tells whether a namespace's file is that of the agent's own, which is
// its machine's.
func isOwn(path string) bool {
	if path == "" {
		return true
	}
	id, err := machine.ID(path)
	own, ownErr := machine.ID("/proc/self/ns/net")
	return err == nil && ownErr == nil && id == own
}
