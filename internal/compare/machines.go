package compare

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Remote says which machines are measured in place of a lab's, and how they are reached.
type Remote struct {
	// Machines are the client's and the server's, and further ones that arms name; none: a lab.
	Machines []remote.Machine
	// Dev names the network cards that paths are built on, as parseCards takes it; empty:
	// nothing is built there.
	Dev     string
	Take    bool   // the cards themselves are moved into the lab, and given back
	Net     string // of the machines' addresses on the wire; see lab.ParseNet
	Options remote.Options
}

// resolveMachines gives where the ends of every path are on the two machines, and
// refuses what cannot be measured between real machines.
func (q Request) resolveMachines(arms []path.Arm, between []betweenMachines) (all [][2]agent.Location, err error) {
	refuse := func(why, do string) ([][2]agent.Location, error) {
		return nil, verr.New(verr.Usage, "cannot compare on machines", why, do)
	}
	switch {
	case len(q.Remote.Machines) < 2:
		return refuse("one machine is named", "name two: the client's and the server's; paths may be between further ones")
	case q.Wire != "" || q.Hosts != 0:
		return refuse("--wire and --hosts describe a lab", "leave them out: the network between the machines is taken as it is")
	case q.Services != 0 && q.Remote.Dev == "":
		return refuse("--services writes rules into namespaces that Venturi makes", "name the network cards to make these on with --dev or --take, or leave --services out")
	case q.Remote.Dev == "" && q.Remote.Net != "":
		return refuse("--net is for the addresses of machines on a network card, and none is named", "name the card with --dev or --take, or leave --net out")
	case len(q.BesideTools) > 0:
		return refuse("real tools run beside a lab only", "leave --with out")
	}
	return q.locations(arms, between)
}

// locations gives where the ends of the paths are that are there already.
func (q Request) locations(arms []path.Arm, between []betweenMachines) (all [][2]agent.Location, err error) {
	for i, arm := range arms {
		if q.Remote.Dev != "" && arm.Driver.Name != "attach" {
			all = append(all, [2]agent.Location{}) // it is built
			continue
		}
		ends, err := q.endsOf(q.Paths[i], arm, between[i].pair)
		if err != nil {
			return nil, err
		}
		all = append(all, ends)
	}
	return all, nil
}

// endsOf gives where the arm of a path leads on its two machines: from the one, to the other.
func (q Request) endsOf(spec string, arm path.Arm, pair pair) (ends [2]agent.Location, err error) {
	switch arm.Driver.Name {
	case baseline:
		for i, option := range []string{"from", "to"} {
			m := q.Remote.Machines[pair[i]]
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
			"without --dev or --take, only existing networks can be measured: host and attach",
			"name the network card for it with --dev, or a spare one with --take; or give the ends of an existing network with attach:from=ns:NAME,to=pid:N; or leave --machines out")
	}
	return ends, nil
}

// pathArms reads the paths.
func (q Request) pathArms(between []betweenMachines) ([]path.Arm, error) {
	if q.Cluster != nil {
		return q.clusterArms()
	}
	var specs, names []string
	for _, b := range between {
		specs, names = append(specs, b.spec), append(names, b.name)
	}
	return path.Arms(specs, names)
}

// remoteTestbed is machines that ssh reaches, with what was raised on the network cards of
// the first two.
type remoteTestbed struct {
	agents    agents
	streams   []*remote.Process
	live      *agent.Liveness // nil: the agents are processes of this host
	unlock    func()          // nil: the agents hold the lock on measuring
	parts     []*lab.Lab      // what was raised on each; nil: nothing
	fastPaths []fastPathEnd
}

// daemonExit is of [testbed].
func (b *remoteTestbed) daemonExit(path string) error { return b.partExit(path) }

func (b *remoteTestbed) warnings() []result.Warning { return fastPathWarnings(b.fastPaths) }

func (b *remoteTestbed) close() error {
	down := b.takeDown()
	if b.live != nil {
		b.live.Close()
	}
	err := b.agents.close()
	var closing sync.WaitGroup
	for _, stream := range b.streams {
		if stream != nil {
			closing.Go(func() { _ = stream.Close() }) // it is over, however ssh ends
		}
	}
	closing.Wait()
	if b.unlock != nil {
		b.unlock()
	}
	return errors.Join(down, err)
}

// openMachines starts an agent on each of the machines, and finds the ends of every path.
func openMachines(ctx context.Context, r *Resolved, h Host) (s *Session, err error) {
	b := &remoteTestbed{}
	defer func() {
		if err != nil {
			s, err = nil, errors.Join(err, b.close())
		}
	}()
	if err := b.connect(ctx, r, h.Watch); err != nil {
		return nil, err
	}
	s = &Session{host: h, testbed: b}
	for i, m := range r.machines {
		cores, err := machineCores(m, b.agents[i].CPUs())
		if err != nil {
			return nil, err
		}
		s.machines = append(s.machines, testMachine{name: m.Name, agent: b.agents[i], affinity: onCores(cores)})
	}
	if len(r.machines) > 2 {
		s.clients, s.servers = newGroups(r, s.machines, b.live)
	}
	if err := b.addPaths(ctx, r, s); err != nil {
		return nil, err
	}
	return s, b.checkReach(ctx, r, s)
}

// addPaths raises the paths that are to be built, and finds the ends of the others.
func (b *remoteTestbed) addPaths(ctx context.Context, r *Resolved, s *Session) error {
	if r.spread != nil {
		if err := b.raise(ctx, r, s); err != nil {
			return err
		}
	}
	built := 0
	for i, arm := range r.arms {
		if r.spread != nil && r.spread.builds(arm) {
			b.addBuilt(r, s, i, built)
			built++
		} else if err := b.addFound(ctx, r, s, i); err != nil {
			return err
		}
	}
	return nil
}

// addBuilt adds a path that was built, the n-th of those.
func (b *remoteTestbed) addBuilt(r *Resolved, s *Session, path, n int) {
	pair := r.pairs[path]
	p := b.builtPath(r.spread, n, pair)
	for k, pins := range []string{p.ends.ClientPins, p.ends.ServerPins} {
		m := &s.machines[pair[k]]
		if pins != "" {
			b.fastPaths = append(b.fastPaths, fastPathEnd{r.arms[path].Name, m.name, func() (*fastpath.State, error) { return m.remoteState(pins) }})
		}
	}
	s.paths = append(s.paths, p)
}

// addFound adds a path that is there already.
func (b *remoteTestbed) addFound(ctx context.Context, r *Resolved, s *Session, path int) error {
	arm, pair := r.arms[path], r.pairs[path]
	ends, err := b.locate(ctx, r.locations[path], pair)
	if err != nil {
		return err
	}
	_, options, _ := strings.Cut(r.Paths[path], ":") // with the machines' names
	found := result.Arm{Name: arm.Name, Path: arm.Driver.Name, Options: options, FromDevice: ends[0][0].Device, ToDevice: ends[1][0].Device}
	if pair != firstPair {
		found.FromMachine, found.ToMachine = s.machines[pair[0]].name, s.machines[pair[1]].name
	}
	p := newTestPath(found, ends)
	for k, pins := range []*string{&p.ends.ClientPins, &p.ends.ServerPins} {
		m, namespace := &s.machines[pair[k]], ends[k][0].Namespace
		if err := m.agent.Call(ctx, lab.CallPins, namespace, pins); err != nil {
			return err
		}
		if *pins != "" {
			b.fastPaths = append(b.fastPaths, fastPathEnd{arm.Name, m.name, func() (*fastpath.State, error) { return m.remoteAttachedState(namespace) }})
		}
		if r.locations[path][k].Namespace != host.OwnNetwork {
			m.namespaces = append(m.namespaces, host.Named{Name: m.name + "/" + arm.Name, Path: namespace})
		}
	}
	s.paths = append(s.paths, p)
	return nil
}

// connect reaches all machines at once, and then takes the lock on measuring on each.
func (b *remoteTestbed) connect(ctx context.Context, r *Resolved, watch Watch) error {
	b.agents, b.streams = make(agents, len(r.machines)), make([]*remote.Process, len(r.machines))
	var g errgroup.Group
	for i, m := range r.machines {
		watch.Say("reaching machine %s (%s)", m.Name, m.Host)
		g.Go(func() (err error) {
			stream, err := remote.Open(ctx, m, r.reach)
			if err != nil {
				return err
			}
			b.streams[i] = stream
			b.agents[i], err = agent.DialStream(ctx, stream, m.Name)
			return err
		})
	}
	err := g.Wait()
	if err == nil {
		lock := agent.LockOptions{Command: strings.Join(r.Command, " "), Wait: r.Wait, Say: watch.Say}
		err = agent.LockAll(ctx, b.agents, lock)
	}
	switch {
	case err != nil:
	case len(b.agents) > 2:
		b.live, err = agent.WatchEach(ctx, b.agents...)
	default:
		b.live, err = agent.Watch(ctx, b.agents[0], b.agents[1])
	}
	return err
}

// locate finds both ends: the addresses that they may have, and then the routes between them,
// which choose one for each.
func (b *remoteTestbed) locate(ctx context.Context, ends [2]agent.Location, pair pair) (path.Ends, error) {
	var found [2]agent.Located
	find := func(i int, peers []netip.Addr) (err error) {
		other := ends[1-i]
		ends[i].PeerAddrs, ends[i].PeerNamespace, ends[i].PeerOption = peers, other.Namespace, other.Option
		found[i], err = b.agents[pair[i]].Locate(ctx, ends[i])
		return err
	}
	for i := range ends {
		if err := find(i, nil); err != nil {
			return nil, err
		}
	}
	if err := find(0, found[1].Addrs); err != nil {
		return nil, err
	}
	ends[1].Addr = found[0].PeerAddr
	if err := find(1, []netip.Addr{found[0].Addr}); err != nil {
		return nil, err
	}
	return path.Ends{{found[0].Endpoint}, {found[1].Endpoint}}, nil
}
