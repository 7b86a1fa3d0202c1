package compare

import (
	"context"
	"net"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/meter"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Gauge measures the first path of a session again and again, in whatever state
// it is then.
type Gauge struct{ run experiment.Run }

// Gauge readies a gauge of the request's first path and cells; TCP has the
// congestion control of the ends' namespaces. Error: ends in virtual machines.
func (s *Session) Gauge(r *Resolved) (*Gauge, error) {
	plan, ends, err := s.plan(r)
	if err != nil {
		return nil, err
	}
	path := plan.Arms[0].Name
	for _, p := range ends[0].Pairs {
		if p.From.Agent != "" || p.To.Agent != "" {
			return nil, verr.New(verr.Usage, "cannot measure path "+path+" in several states", "its ends are in virtual machines", "choose another path")
		}
	}
	plan.Arms, plan.Series = plan.Arms[:1], 1
	cores := []string{"cpu", "softnet"}
	server := meter.NamesOf(meter.Namespace)
	if !s.sharedCores { // else the client's meters see the cores of both
		server = append(server, cores...)
	}
	return &Gauge{experiment.Run{
		Plan: plan, Ends: ends[:1], Client: s.machines[0].agent, Server: s.machines[1].agent,
		DaemonExit:   func(int) error { return s.testbed.daemonExit(path) },
		ClientMeters: append(cores, meter.NamesOf(meter.Namespace)...), ServerMeters: server,
	}}, nil
}

// MachineNames are those of the client's and of the server's machine.
func (s *Session) MachineNames() []string { return []string{s.machines[0].name, s.machines[1].name} }

// Agents are those of the client's and of the server's machine.
func (s *Session) Agents() []*agent.Client {
	return []*agent.Client{s.machines[0].agent, s.machines[1].agent}
}

// Measure measures every cell once, on fresh sockets. See [experiment.Run.MeasureOnce].
func (g *Gauge) Measure(ctx context.Context) (*result.Record, error) { return g.run.MeasureOnce(ctx) }

// EstimatedDuration is about how long one measurement takes.
func (g *Gauge) EstimatedDuration() time.Duration { return experiment.Duration(g.run.Plan, Slow()) }

// Namespaces are where the first path of a session lies. Of one that somebody else
// built only the ends are known.
type Namespaces struct {
	Machines []string // files of network namespaces: of machines, and of switches on them
	Pods     []string // those of the ends, where they are not machines
	Devices  []NamespaceDevice
}

// NamespaceDevice is a device that is up in one of the namespaces.
type NamespaceDevice struct {
	Namespace, Name, Kind string
	Card                  bool // it plays a network card of a machine, which the path's packets pass
}

// Namespaces gives them. The loopback and bridges are left out of the devices, and so is
// the wire where the path has cards of its own. Of ends that somebody else made there are
// only those that carry the path: of what else is up beside them it is not known whose it is.
func (s *Session) Namespaces() (out Namespaces, err error) {
	arm := s.lab.Arms[0]
	carries := map[string]string{} // by namespace, the device of an end that is not the lab's
	for i, m := range s.lab.Machines[:len(arm.Ends)] {
		crossed := crossed(m, arm.Name)
		if crossed != nil {
			out.Machines = append(out.Machines, dedup(append(crossed, m.Namespace))...)
		}
		for _, e := range arm.Ends[i] {
			if e.Namespace != m.Namespace {
				out.Pods = append(out.Pods, e.Namespace)
			}
			if crossed == nil {
				carries[e.Namespace] = e.Device
			}
		}
	}
	for _, space := range append(out.Machines, out.Pods...) {
		err := host.Do(space, func() error {
			links, err := host.Links()
			if device, theirs := carries[space]; theirs {
				links = host.LowerDevices(links, device)
			}
			for _, l := range links {
				a := l.Attrs()
				unused := a.Name == lab.WireDevice && !arm.UsesWire()
				if a.Flags&net.FlagUp != 0 && a.Flags&net.FlagLoopback == 0 && l.Type() != "bridge" && !unused {
					out.Devices = append(out.Devices, NamespaceDevice{space, a.Name, l.Type(), arm.IsCard(space, a.Name)})
				}
			}
			return err
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
