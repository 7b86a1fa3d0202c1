package compare

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/result"
)

// fastPathOnWire warns of programs of fast paths on the wire that the baseline uses: its packets
// pass them, as those of a node's host network do.
func fastPathOnWire(plan *result.Plan, ends []experiment.Ends) []result.Warning {
	base, fast := "", []string(nil)
	for i, arm := range plan.Arms {
		d, err := path.Lookup(arm.Path)
		if err != nil || d.OwnCard || d.Name == "attach" {
			continue // a tool's arm goes where another one does; the others are not on the wire
		}
		switch {
		case arm.Role == result.RoleBaseline:
			base = arm.Name
		case arm.Role == "" && ends[i].ClientPins != "":
			fast = append(fast, arm.Name)
		}
	}
	if base == "" || len(fast) == 0 {
		return nil
	}
	names := strings.Join(fast, " and ")
	return []result.Warning{{Code: "fast-path-on-wire", Text: fmt.Sprintf(
		"every packet on the wire passes the programs of %[1]s, which cost %[2]s a few percent: "+
			"the ratios to %[2]s are better by as much; to see how much, run the command without %[1]s, "+
			"and compare both runs (venturi report BEFORE AFTER)", names, base)}}
}

// fastPathEnd is the fast path of a path on one machine.
type fastPathEnd struct {
	path, machine string
	state         func() (*fastpath.State, error) // nil: it has left none
}

// fastPathWarnings warns of fast paths that carry nothing, or nothing by some device,
// and tells why. That a daemon of a lab has ended is told otherwise.
func fastPathWarnings(ends []fastPathEnd) (out []result.Warning) {
	for _, e := range ends {
		warn := func(code, what, why string) {
			why = e.machine + ": " + why
			at := slices.IndexFunc(out, func(w result.Warning) bool { return w.Code == code && w.Arm == e.path })
			if at >= 0 {
				out[at].Text += "; " + why
				return
			}
			out = append(out, result.Warning{Code: code, Arm: e.path, Text: what + " when the run ended: " + why})
		}
		state, err := e.state()
		switch {
		case agent.IsGone(err): // as the run's own error says
			continue
		case err != nil:
			state = &fastpath.State{Off: err.Error()}
		case state == nil:
			continue
		}
		if state.Off != "" {
			warn("fast-path-off", "its fast path carried nothing", state.Off)
		}
		for _, r := range state.Refused {
			warn("fast-path-refused", "its fast path did not carry all", fmt.Sprintf("by %s: %s", r.Device, r.Reason))
		}
	}
	return out
}

// labFastPaths are those of a lab.
func labFastPaths(l *lab.Lab) (ends []fastPathEnd) {
	for _, arm := range l.Arms {
		for i, pins := range arm.Pins {
			ends = append(ends, fastPathEnd{arm.Name, l.Machines[i].Name, func() (*fastpath.State, error) { return lab.FastPathState(pins) }})
		}
	}
	return ends
}

// attachedFastPath is the fast path that carries what a namespace of this host sends, which
// somebody else has made.
func attachedFastPath(path, machine, namespace string) fastPathEnd {
	return fastPathEnd{path, machine, func() (*fastpath.State, error) {
		return attachedState(lab.PinsOf(namespace), lab.FastPathState)
	}}
}

// attachedState is the state of such a fast path when the run ends, by when another daemon may
// have taken over, or none be left.
func attachedState(pins string, read func(pins string) (*fastpath.State, error)) (*fastpath.State, error) {
	if pins == "" {
		return &fastpath.State{Off: "its daemon has ended"}, nil
	}
	return read(pins)
}

// stateLimit is how long an agent may take to find or read the state of a fast path.
var stateLimit = host.ScaleTimeout(5 * time.Second)

// remoteState reads the state of a fast path on the agent's machine.
func (m *testMachine) remoteState(pins string) (state *fastpath.State, err error) {
	err = m.callWithin(stateLimit, lab.CallFastPathState, pins, &state)
	return state, err
}

// remoteAttachedState is attachedState for a namespace of the agent's machine.
func (m *testMachine) remoteAttachedState(namespace string) (*fastpath.State, error) {
	pins := ""
	if err := m.callWithin(stateLimit, lab.CallPins, namespace, &pins); err != nil {
		return nil, err
	}
	return attachedState(pins, m.remoteState)
}

// callWithin makes a call of the machine's agent that has a limit of its own: the run may be over.
func (m *testMachine) callWithin(limit time.Duration, name string, in, out any) error {
	ctx, cancel := context.WithTimeout(context.Background(), m.agent.Scale(limit))
	defer cancel()
	return m.agent.Call(ctx, name, in, out)
}
