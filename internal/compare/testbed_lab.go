package compare

import (
	"context"
	"errors"
	"strings"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/result"
)

// labTestbed is a lab, with the lock on measuring.
type labTestbed struct {
	lab      *lab.Lab
	agents   agents
	attached []fastPathEnd // fast paths of others that carry what attached ends send
	unlock   func()
}

func (b *labTestbed) daemonExit(path string) error { return b.lab.DaemonExit(path) }

func (b *labTestbed) warnings() []result.Warning {
	return fastPathWarnings(append(labFastPaths(b.lab), b.attached...))
}

func (b *labTestbed) close() error {
	err := b.agents.close()
	if b.lab != nil {
		err = errors.Join(err, b.lab.Down())
	}
	b.unlock()
	return err
}

// openLab takes the lock, raises the lab with the request's paths, and connects
// to the agents.
func openLab(ctx context.Context, r *Resolved, h Host) (s *Session, err error) {
	unlock, err := lab.LockMeasure(ctx, r.Wait, strings.Join(r.Command, " "), h.Watch.Say)
	if err != nil {
		return nil, err
	}
	b := &labTestbed{unlock: unlock}
	defer func() {
		if err != nil {
			s, err = nil, errors.Join(err, b.close())
		}
	}()
	h.Watch.Say("raising %d machines with %s", max(r.lab.Hosts, lab.DefaultHosts), strings.Join(r.Paths, ", "))
	if b.lab, err = lab.Up(lab.WithSay(ctx, h.Watch.Say), r.labOptions(h)); err != nil {
		return nil, err
	}
	s = &Session{host: h, testbed: b, lab: b.lab, wire: b.lab.Wire, machines: make([]testMachine, 2), sharedCores: b.lab.Cores == nil}
	b.agents = make(agents, 2)
	for i := range s.machines {
		m := b.lab.Machines[i]
		if b.agents[i], err = agent.Dial(ctx, m.Socket); err != nil {
			return nil, err
		}
		s.machines[i].name, s.machines[i].agent = m.Name, b.agents[i]
		s.machines[i].affinity = affinity{cpu: []int{r.plan.ClientCPU, r.plan.ServerCPU}[i], cores: b.lab.Cores[m.Name]}
		s.machines[i].namespaces = append(m.Namespaces()[1:], m.Attached...)
	}
	emulated, err := emulated(ctx, b.lab)
	if err != nil {
		return nil, err
	}
	for _, a := range b.lab.Arms {
		p := newTestPath(result.Arm{Name: a.Name, Path: a.Path, Options: a.Options, Overhead: a.Overhead,
			Versions: a.Versions, Emulated: emulated[a.Name]}, a.Ends)
		p.ends.ClientNetns, p.ends.ServerNetns = crossed(b.lab.Machines[0], a.Name), crossed(b.lab.Machines[1], a.Name)
		if len(a.Pins) > 1 {
			p.ends.ClientPins, p.ends.ServerPins = a.Pins[0], a.Pins[1]
		}
		if a.Path == "attach" { // the ends may be of a lab's path, or a node's pods
			for i, pins := range []*string{&p.ends.ClientPins, &p.ends.ServerPins} {
				namespace := a.Ends[i][0].Namespace
				if *pins = lab.PinsOf(namespace); *pins != "" {
					b.attached = append(b.attached, attachedFastPath(a.Name, s.machines[i].name, namespace))
				}
			}
		}
		s.paths = append(s.paths, p)
	}
	return s, nil
}

// Lab is the lab of the session, for who changes the state that its paths are in
// between two comparisons; nil: it is on real machines.
func (s *Session) Lab() *lab.Lab { return s.lab }
