package agent

import (
	"slices"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/machine"
	"github.com/venturi-net/venturi/internal/meter"
	"github.com/venturi-net/venturi/internal/verr"
)

func clientEnd(p load.Pair) machine.Endpoint { return p.From }
func serverEnd(p load.Pair) machine.Endpoint { return p.To }

// open opens the meters for this machine's ends of a plan's arms. Without
// meters the recorder does nothing.
func (s *server) open(plan load.Plan, names []string, end func(load.Pair) machine.Endpoint) (*meter.Recorder, error) {
	rec, err := meter.NewRecorder(s.machine, names, meter.Setup{Arms: meterArms(plan, end)})
	if err != nil {
		return nil, verr.Wrap(verr.Missing, "cannot meter on "+s.machine, err, "leave that meter out")
	}
	return rec, nil
}

// meterArms says where the meters look for an arm: at the namespaces of its
// ends, and for devices also at the machine's own, where tunnels and the wire
// are; at one namespace once, whatever it is called.
func meterArms(plan load.Plan, end func(load.Pair) machine.Endpoint) []meter.Arm {
	arms := make([]meter.Arm, len(plan.Arms))
	for i, a := range plan.Arms {
		var spaces []string
		for _, pair := range a.Ends {
			if ns := end(pair).Namespace; !slices.Contains(spaces, ns) {
				spaces = append(spaces, ns)
			}
		}
		arms[i] = meter.Arm{Name: a.Name, Ends: spaces, Crossed: spaces}
		if !slices.ContainsFunc(spaces, isOwn) {
			arms[i].Crossed = append(slices.Clone(spaces), "")
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
