package agent

import (
	"slices"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/meter"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// side picks what of an arm is on this machine.
type side struct {
	end    func(load.Pair) host.Endpoint
	spaces func(load.Arm) []string
	pins   func(load.Arm) string
}

var (
	clientSide = side{
		func(p load.Pair) host.Endpoint { return p.From },
		func(a load.Arm) []string { return a.ClientNetns },
		func(a load.Arm) string { return a.ClientPins },
	}
	serverSide = side{
		func(p load.Pair) host.Endpoint { return p.To },
		func(a load.Arm) []string { return a.ServerNetns },
		func(a load.Arm) string { return a.ServerPins },
	}
)

// open opens the meters for this machine's side of a plan's arms. Without
// meters the recorder does nothing.
func (s *server) open(plan load.Plan, names []string, this side) (*meter.Recorder, error) {
	rec, err := meter.NewRecorder(s.options.Machine, names, meter.Setup{Arms: meterArms(plan, this), Cores: s.options.Cores})
	if err != nil {
		return nil, verr.Wrap(verr.Missing, "cannot meter on "+s.options.Machine, err, "leave that meter out")
	}
	return rec, nil
}

// meterArms says where the meters look for an arm: at the namespaces of its
// ends, and for devices also at those that the plan says lie between: the
// machine's own, where tunnels and the wire are, or those of switches. Each is
// looked at once. Of an end in a virtual machine only devices are to be seen.
func meterArms(plan load.Plan, this side) []meter.Arm {
	arms := make([]meter.Arm, len(plan.Arms))
	for i, a := range plan.Arms {
		var ends, all []string
		for _, pair := range a.Ends {
			end := this.end(pair)
			if end.Agent == "" {
				ends = addNamespace(ends, end.Namespace)
			}
			all = addNamespace(all, end.Namespace)
		}
		for _, ns := range this.spaces(a) {
			all = addNamespace(all, ns)
		}
		arms[i] = meter.Arm{Name: a.Name, Ends: ends, Crossed: all, Pins: this.pins(a)}
	}
	return arms
}

// guestMeters are read where the sockets are: by the agent in a virtual machine
// for the ends in there. All others are of the machine that it runs on.
var guestMeters = []string{"tcp", "udp"}

// withoutGuests leaves out what the meters of this machine cannot have seen of
// the arms whose clients are in virtual machines.
func withoutGuests(sums []result.Meter, plan load.Plan) []result.Meter {
	return slices.DeleteFunc(sums, func(m result.Meter) bool {
		return slices.Contains(guestMeters, m.Name) && slices.ContainsFunc(plan.Arms, func(a load.Arm) bool {
			return a.Name == m.Arm && len(a.Ends) > 0 && a.Ends[0].From.Agent != ""
		})
	})
}

// addNamespace adds a namespace, given by its file, unless it is in the list.
func addNamespace(spaces []string, path string) []string {
	if slices.Contains(spaces, path) {
		return spaces
	}
	id, err := host.ID(path)
	if err == nil && slices.ContainsFunc(spaces, func(s string) bool {
		other, err := host.ID(s)
		return err == nil && other == id
	}) {
		return spaces
	}
	return append(spaces, path)
}

// isOwn tells whether a namespace's file is that of the agent's own, which is
// its machine's.
func isOwn(path string) bool {
	if path == "" {
		return true
	}
	id, err := host.ID(path)
	own, ownErr := host.ID("/proc/self/ns/net")
	return err == nil && ownErr == nil && id == own
}
