package compare

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/meter"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Cluster says that paths of a Kubernetes cluster are measured, and with what rights.
type Cluster struct {
	Access  kube.Access
	Options kube.Options
	Tune    bool          // the agents on the two nodes change them, too
	Extra   time.Duration // for which it is measured again and again, beyond the plan
}

// clusterArms reads the paths of a cluster; the baseline comes first.
func (q Request) clusterArms() (arms []path.Arm, err error) {
	refuse := func(why, do string) ([]path.Arm, error) {
		return nil, verr.New(verr.Usage, "cannot compare in a cluster", why, do)
	}
	switch {
	case q.Wire != "" || q.Hosts != 0 || q.Services != 0:
		return refuse("--wire, --hosts and --services describe a lab", "leave them out: the network of the cluster is taken as it is")
	case len(q.BesideTools) > 0:
		return refuse("real tools run beside a lab only", "leave --with out")
	case len(q.Remote.Machines) > 0:
		return refuse("--machines names machines that ssh reaches", "leave --machines out, and choose nodes with --nodes")
	case q.Baseline != "":
		return refuse("the other paths are compared with host where agents run on the nodes, else with pod", "leave --baseline out")
	}
	for i, name := range q.Paths {
		arms = append(arms, path.Arm{Name: name, Index: i, Driver: &path.Driver{Name: name}})
	}
	return arms, nil
}

// servicePorts is how many ports the Services of a plan need. Errors are for people.
func servicePorts(p result.Plan, paths []string) (ports int, err error) {
	if !slices.Contains(paths, "service") && !slices.Contains(paths, "nodeport") {
		return 0, nil
	}
	for _, c := range p.Cells {
		ports = max(ports, c.Flows)
		l, err := load.Find(c.Load)
		switch {
		case err != nil:
			return 0, err
		case c.Background != nil:
			return 0, verr.New(verr.Usage, "cannot measure a Service with --beside or --curve", "a Service has ports for one load only", "leave it out, or name the paths host and pod")
		case l.Transport != "tcp" && l.Transport != "udp":
			return 0, verr.New(verr.Usage, "cannot measure a Service with "+c.Load, "a Service forwards TCP and UDP ports only", "name the paths host and pod, or other loads")
		}
	}
	if ports > kube.MaxPorts {
		return 0, verr.New(verr.Usage, fmt.Sprintf("cannot measure a Service with %d flows", ports), fmt.Sprintf("it has at most %d ports", kube.MaxPorts), "choose fewer flows, or name the paths host and pod")
	}
	return ports, nil
}

// clusterTestbed is pods, or agents on nodes, of a cluster.
type clusterTestbed struct {
	placement *kube.Placement
	agents    agents
	live      *agent.Liveness
	plain     bool
}

func (*clusterTestbed) daemonExit(string) error { return nil }

// warnings says what a level cannot have.
func (b *clusterTestbed) warnings() []result.Warning {
	if !b.plain {
		return nil
	}
	return []result.Warning{{Code: "plain-pods", Text: "unprivileged pods measured this: there is no host network to compare with, no CPU cost, " +
		"and no end is pinned to a core; --node-agents has all three"}}
}

func (b *clusterTestbed) close() error {
	if b.live != nil {
		b.live.Close()
	}
	err := b.agents.close()
	if b.placement != nil {
		err = errors.Join(err, b.placement.Close())
	}
	return err
}

// deadline is when the pods of a run end, whoever is there to end them: far later than it
// takes. A run with a budget ends after the series in which that is spent.
func (r *Resolved) deadline() time.Duration {
	length := experiment.Duration(&r.plan, 1)
	if r.plan.Budget > 0 {
		length = min(length, r.plan.Budget+length/time.Duration(r.plan.Series))
	}
	return 10*time.Minute + 2*length
}

// openCluster puts agents into the cluster, and finds the ends of every path.
func openCluster(ctx context.Context, r *Resolved, h Host) (s *Session, err error) {
	b := &clusterTestbed{plain: r.cluster.Options.Level == kube.Plain}
	defer func() {
		if err != nil {
			s, err = nil, errors.Join(err, b.close())
		}
	}()
	client, err := kube.Open(r.cluster.Access)
	if err != nil {
		return nil, err
	}
	b.placement, err = client.Place(ctx, kube.RunRequest{Options: r.cluster.Options, Paths: r.Paths, Ports: r.servicePorts, Tune: r.cluster.Tune, Deadline: r.deadline() + r.cluster.Extra,
		Command: strings.Join(r.Command, " "), Wait: r.Wait, Say: h.Watch.Say})
	if err != nil {
		return nil, err
	}
	if err := b.connect(ctx); err != nil {
		return nil, err
	}
	s = &Session{host: h, testbed: b, inCluster: true, servers: &serverGroup{agentOf: map[string]int{}}}
	for i := range 2 {
		s.machines = append(s.machines, testMachine{name: b.placement.Agents[i].Node, agent: b.agents[i], affinity: unpinned})
	}
	if b.plain {
		s.meters = meter.NamesOf(meter.Namespace)
	} else if err := s.pinNodes(ctx); err != nil {
		return nil, err
	}
	for i, p := range b.placement.Paths {
		ends, err := b.locate(ctx, p)
		if err != nil {
			return nil, err
		}
		found := newTestPath(result.Arm{Name: r.arms[i].Name, Path: p.Name, Options: pathOptions(p),
			FromDevice: ends[0][0].Device, ToDevice: ends[1][0].Device}, ends)
		found.ends.Dial, found.ends.ServerPort = p.Dial, p.Port
		s.paths = append(s.paths, found)
		s.servers.add(r, i, p.To.Agent)
	}
	for i, c := range b.agents {
		var meters []string
		if i == 0 || b.placement.Agents[i].Node == b.placement.Agents[0].Node { // the client's agent counts the cores
			meters = meter.NamesOf(meter.Namespace)
		}
		member := groupMember{ServerAgent: c, meters: meters}
		if !b.plain && !s.sharedCores {
			member.affinity = s.serverAffinity(i)
		}
		s.servers.members = append(s.servers.members, member)
	}
	return s, s.awaitServices(ctx, r)
}

// pathOptions says which pods or nodes a path is between.
func pathOptions(p kube.ClusterPath) string { return "from=" + p.From.Name + ",to=" + p.To.Name }

// add notes which agent serves the arms of a path.
func (g *serverGroup) add(r *Resolved, path, agent int) {
	for i, arm := range r.plan.Arms {
		if r.pathOf[i] == path {
			g.agentOf[arm.Name] = agent
		}
	}
}

// connect begins to speak to all agents.
func (b *clusterTestbed) connect(ctx context.Context) error {
	b.agents = make(agents, len(b.placement.Agents))
	var g errgroup.Group
	for i, a := range b.placement.Agents {
		g.Go(func() (err error) {
			b.agents[i], err = agent.DialStream(ctx, a.Stream, a.Node)
			return err
		})
	}
	err := g.Wait()
	if err == nil {
		b.live, err = agent.Watch(ctx, b.agents[0], b.agents[1:]...)
	}
	return err
}

// pinNodes chooses the cores of two nodes. Nodes of one machine, as those of a test cluster
// are, get different ones.
func (s *Session) pinNodes(ctx context.Context) error {
	read, err := s.readFacts(ctx)
	if err != nil {
		return err
	}
	client, server := s.machines[0].agent.CPUs(), s.machines[1].agent.CPUs()
	if s.sharedCores = read[0].BootID != "" && read[0].BootID == read[1].BootID; s.sharedCores {
		client, server = dealCores(client)
	} else {
		client, server = ownCores(client), ownCores(server)
	}
	s.machines[0].affinity, s.machines[1].affinity = onCores(client), onCores(server)
	return nil
}

// serverAffinity is that of the servers which the agent of a node has. Those on the client's
// node use its cores from the other end.
func (s *Session) serverAffinity(node int) *affinity {
	if node > 0 {
		return &s.machines[node].affinity
	}
	cores := slices.Clone(s.machines[0].cores)
	slices.Reverse(cores)
	own := onCores(cores)
	return &own
}

// locate finds both ends of a path: the devices of their addresses, then the routes between them.
func (b *clusterTestbed) locate(ctx context.Context, p kube.ClusterPath) (found path.Ends, err error) {
	ends := [2]kube.TrafficEnd{p.From, p.To}
	for i, option := range []string{"from", "to"} {
		other := ends[1-i]
		e, err := b.agents[ends[i].Agent].Locate(ctx, agent.Location{Option: option, Namespace: ends[i].Netns, Addr: ends[i].Addr,
			PeerAddrs: []netip.Addr{other.Addr}, PeerNamespace: other.Name})
		if err != nil {
			return nil, err
		}
		found = append(found, []host.Endpoint{e.Endpoint})
	}
	return found, nil
}

// serviceLimit is how long the nodes may take to learn of a Service.
const serviceLimit = 20 * time.Second

// awaitServices waits until the paths by Services carry traffic: the nodes learn of a new
// one after its pod is ready.
func (s *Session) awaitServices(ctx context.Context, r *Resolved) error {
	var waiting []int
	for i := range s.paths {
		if len(s.paths[i].ends.Dial) > 0 {
			waiting = append(waiting, i)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	s.host.Watch.Say("waiting for the nodes to learn of %d Services", len(waiting))
	for deadline := time.Now().Add(serviceLimit); ; {
		err := s.tryPaths(ctx, waiting)
		if err == nil || ctx.Err() != nil || agent.IsGone(err) {
			return errors.Join(err, ctx.Err())
		}
		if time.Now().After(deadline) {
			return verr.Wrap(verr.Failed, "cannot reach the Services of the cluster", err,
				"check that kube-proxy or its replacement runs on both nodes, and that no NetworkPolicy forbids the traffic; or leave the path out")
		}
		_ = host.Sleep(ctx, 300*time.Millisecond)
	}
}

// tryPaths sends a few packets by each of some paths.
func (s *Session) tryPaths(ctx context.Context, paths []int) error {
	plan := &result.Plan{Series: 1, Rounds: 1, ClientCPU: -1, ServerCPU: -1, Seed: uint64(time.Now().UnixNano())}
	ends := make([]experiment.Ends, len(paths))
	for i, p := range paths {
		arm := s.paths[p].arm
		if i == 0 {
			arm.Role = result.RoleBaseline
		}
		plan.Arms, ends[i] = append(plan.Arms, arm), s.paths[p].ends
	}
	for _, name := range []string{"tcp_lat", "udp_lat"} {
		l, err := load.Find(name)
		if err != nil {
			return err
		}
		plan.Cells = append(plan.Cells, result.Cell{Name: name, Load: name, Transport: l.Transport, Size: l.Size, Flows: 1, Slice: 5 * time.Millisecond, Head: l.Head})
	}
	run := experiment.Run{Plan: plan, Ends: ends, Client: s.client(), Server: s.server(nil)}
	rec, err := run.MeasureOnce(ctx)
	if err != nil {
		return err
	}
	for _, slice := range rec.Slices {
		if slice.Failed != "" {
			return fmt.Errorf("path %s: %s", slice.Arm, slice.Failed)
		}
	}
	if len(rec.Slices) < len(plan.Cells)*len(paths) {
		return errors.New("no traffic arrives")
	}
	return nil
}
