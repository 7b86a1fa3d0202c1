package compare

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/verr"
)

// Remote says which machines are measured in place of a lab's, and how they are reached.
type Remote struct {
	Machines []remote.Machine // the client's and the server's; none: a lab
	Options  remote.Options
}

// checkMachines refuses what cannot be measured between real machines.
func (q Request) checkMachines() error {
	refuse := func(why, do string) error {
		return verr.New(verr.Usage, "cannot compare on machines", why, do)
	}
	switch {
	case len(q.Remote.Machines) != 2:
		return refuse(fmt.Sprintf("%d machines are named", len(q.Remote.Machines)), "name two: the client's and the server's")
	case q.Wire != "" || q.Hosts != 0 || q.Services != 0:
		return refuse("--wire, --hosts and --services describe a lab", "leave them out: the network between the machines is taken as it is")
	case len(q.Tools) > 0:
		return refuse("real tools run beside a lab only", "leave --with out")
	}
	arms, err := q.pathArms()
	if err != nil {
		return err
	}
	for i, arm := range arms {
		if _, err := q.endsOf(q.Paths[i], arm); err != nil {
			return err
		}
	}
	return nil
}

// endsOf gives where the arm of a path leads on the two machines: from the one, to the other.
func (q Request) endsOf(spec string, arm path.Arm) (ends [2]agent.Location, err error) {
	switch arm.Driver.Name {
	case baseline:
		for i, option := range []string{"from", "to"} {
			m := q.Remote.Machines[i]
			ends[i] = agent.Location{Option: option, Namespace: host.OwnNetwork, Addr: m.Addr, Device: m.Device}
		}
	case "attach":
		for i, option := range []string{"from", "to"} {
			ends[i] = agent.Location{Option: option, Namespace: arm.Options[option]}
			if addr := arm.Options[option+"-addr"]; addr != "" {
				ends[i].Addr = netip.MustParseAddr(addr) // it was checked when it was read
			}
		}
	default:
		return ends, verr.New(verr.Usage, "cannot raise path "+spec+" between machines",
			"only networks that are there already are measured between real machines: host and attach",
			"build the network yourself and name its ends with attach:from=ns:NAME,to=pid:N; or leave --machines out to raise it in a lab")
	}
	return ends, nil
}

// withoutMachines takes the machines' names out of from=a/ns:red and to=b/pid:4711. The
// client is on the first machine, the server on the second.
func (q Request) withoutMachines(spec string) (string, error) {
	driver, list, more := strings.Cut(spec, ":")
	if !more {
		return spec, nil
	}
	parts := strings.Split(list, ",")
	for i, part := range parts {
		for n, key := range []string{"from=", "to="} {
			value, ok := strings.CutPrefix(part, key)
			if !ok {
				continue
			}
			name, rest, named := strings.Cut(value, "/")
			own, other := q.Remote.Machines[n].Name, q.Remote.Machines[1-n].Name
			switch {
			case named && name == own:
				parts[i] = key + rest
			case named && name == other:
				return "", verr.New(verr.Usage, "cannot attach to "+part, "the client is on the machine that is named first, the server on the second",
					"write "+key+own+"/..., or name the machines in the other order")
			}
		}
	}
	return driver + ":" + strings.Join(parts, ","), nil
}

// pathArms reads the paths.
func (q Request) pathArms() ([]path.Arm, error) {
	specs := slices.Clone(q.Paths)
	if len(q.Remote.Machines) == 2 {
		for i, spec := range specs {
			var err error
			if specs[i], err = q.withoutMachines(spec); err != nil {
				return nil, err
			}
		}
	}
	return path.Arms(specs, q.Names)
}

// openMachines starts an agent on each of the machines, and finds the ends of every path.
func openMachines(ctx context.Context, q Request, h Host) (s *Session, err error) {
	s = &Session{host: h, remote: true, lab: &lab.Lab{}, emulated: map[string]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	var g errgroup.Group
	for i, m := range q.Remote.Machines {
		h.Watch.Say("reaching machine %s (%s)", m.Name, m.Host)
		g.Go(func() (err error) {
			stream, err := remote.Open(ctx, m, q.Remote.Options)
			if err != nil {
				return err
			}
			s.streams[i] = stream
			if s.agents[i], err = agent.DialStream(ctx, stream, m.Name); err != nil {
				return err
			}
			return s.agents[i].Lock(ctx, q.Wait, strings.Join(q.Command, " "))
		})
	}
	if err := g.Wait(); err != nil {
		return s, err
	}
	if s.live, err = agent.Watch(ctx, s.agents[0], s.agents[1]); err != nil {
		return s, err
	}
	for _, m := range q.Remote.Machines {
		s.lab.Machines = append(s.lab.Machines, lab.Machine{Name: m.Name})
	}
	arms, err := q.pathArms()
	if err != nil {
		return s, err
	}
	for i, arm := range arms {
		ends, err := q.endsOf(q.Paths[i], arm)
		if err != nil {
			return s, err
		}
		found, err := s.locate(ctx, ends)
		if err != nil {
			return s, err
		}
		_, options, _ := strings.Cut(q.Paths[i], ":") // with the machines' names
		s.lab.Arms = append(s.lab.Arms, lab.Arm{Name: arm.Name, Path: arm.Driver.Name, Options: options, Ends: found})
	}
	return s, nil
}

// locate finds both ends: first their addresses, then the routes between them.
func (s *Session) locate(ctx context.Context, ends [2]agent.Location) (found path.Ends, err error) {
	for i := range ends {
		e, err := s.agents[i].Locate(ctx, ends[i])
		if err != nil {
			return nil, err
		}
		ends[i].Addr = e.Addr
	}
	for i, other := range []int{1, 0} {
		ends[i].PeerAddr, ends[i].PeerNamespace, ends[i].PeerOption = ends[other].Addr, ends[other].Namespace, ends[other].Option
		e, err := s.agents[i].Locate(ctx, ends[i])
		if err != nil {
			return nil, err
		}
		found = append(found, []host.Endpoint{e})
	}
	return found, nil
}

// cpus pins the two ends, each on its own machine: beside the core that takes most
// interrupts, the first, where there is another.
func (s *Session) cpus() (client, server int) {
	choose := func(c *agent.Client) int {
		switch cpus := c.CPUs(); len(cpus) {
		case 0:
			return -1
		case 1:
			return cpus[0]
		default:
			return cpus[1]
		}
	}
	return choose(s.agents[0]), choose(s.agents[1])
}
