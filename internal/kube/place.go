package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/venturi-net/venturi/internal/verr"
)

// RunRequest is what one run needs of a cluster.
type RunRequest struct {
	Options
	Paths    []string // as [Options.Paths] gives them
	Ports    int      // at the server's end of each path
	Tune     bool     // the agents on nodes change them, too; no path leads by a Service
	Deadline time.Duration
	Command  string // what to tell others of the run
	Wait     bool   // for another run
	Say      func(format string, args ...any)
}

// TrafficEnd is one end of a path.
type TrafficEnd struct {
	Agent     int    // that opens it; an index into [Placement.Agents]
	Netns     string // "self", or "pod:UID", for the agent
	Addr      netip.Addr
	Name      string // of the pod with its namespace, or of the node
	node, uid string
}

// ClusterPath is one path that is up.
type ClusterPath struct {
	Name     string
	From, To TrafficEnd
	// Port is the first of the server's, and Dial where the client of each flow reaches it:
	// the addresses of a Service. None: at the server's own address and port.
	Port int
	Dial []netip.AddrPort
}

// Agent is an agent that can be spoken to.
type Agent struct {
	Node string
	*Stream
}

// Placement is what a run has in a cluster.
type Placement struct {
	Agents  []Agent // the client's first, then the server's on the other node
	Paths   []ClusterPath
	client  *Client
	run     *run
	created bool                 // something was created
	podUIDs map[string]types.UID // by role, of the pods beside the Job's own
	hosts   sync.Map             // by the name of a node, its InternalIP
}

// Place creates the pods that a run needs, waits for them and starts an agent in each. With an
// error nothing is left. Errors are for people.
func (c *Client) Place(ctx context.Context, q RunRequest) (p *Placement, err error) {
	r := &run{Options: q.Options, id: fmt.Sprintf("%05x", rand.N(1<<20)), command: q.Command, deadline: q.Deadline, ports: q.Ports, changesNodes: q.Tune}
	r.namespace = cmp.Or(q.Namespace, claimName)
	needs := q.needs()
	if q.Tune {
		needs = append(q.nodeNeeds(), tuneNeeds(nil)...)
	}
	if err := c.checkRights(ctx, needs); err != nil {
		return nil, err
	}
	named, err := c.namedPods(ctx, &r.Options)
	if err != nil {
		return nil, err
	}
	p = &Placement{client: c, run: r}
	defer func() {
		if err != nil {
			p, err = nil, errors.Join(err, p.Close())
		}
	}()
	roles := r.roles(q.Paths)
	if err := p.claim(ctx, q.Wait, q.Say, roles[0]); err != nil {
		return p, err
	}
	if err := p.createPods(ctx, roles[1:]); err != nil {
		return p, err
	}
	made, err := p.createServices(ctx, q.Paths)
	if err != nil {
		return p, err
	}
	q.Say("waiting for %d pods in namespace %s", len(roles), r.namespace)
	ends, err := p.start(ctx, roles)
	if err != nil {
		return p, err
	}
	for role, end := range named {
		ends[role] = end
	}
	return p, p.resolve(q.Paths, ends, made)
}

// roles are those whose pods the paths need; the Job's own comes first.
func (r *run) roles(paths []string) (roles []string) {
	if r.Level == Node {
		roles = []string{clientNodeRole, serverNodeRole}
	}
	if r.From != "" {
		return roles
	}
	if slices.ContainsFunc(paths, func(p string) bool { return p != "host" }) || r.Level == Plain {
		roles = append(roles, clientRole)
	}
	if slices.ContainsFunc(paths, func(p string) bool { return p != "host" && p != "pod-local" }) || r.Level == Plain {
		roles = append(roles, serverRole)
	}
	if slices.Contains(paths, "pod-local") {
		roles = append(roles, localRole)
	}
	return roles
}

// namedPods finds the pods that the user named, and puts the agents onto their nodes.
func (c *Client) namedPods(ctx context.Context, o *Options) (map[string]TrafficEnd, error) {
	if o.From == "" {
		return nil, nil
	}
	ends := map[string]TrafficEnd{}
	for role, text := range map[string]string{clientRole: o.From, serverRole: o.To} {
		namespace, name := splitPod(text)
		var pod corev1.Pod
		if err := c.get(ctx, pods, namespace, name, &pod); err != nil {
			return nil, err
		}
		refuse := func(why, do string) (map[string]TrafficEnd, error) {
			return nil, verr.New(verr.Usage, "cannot measure with pod "+text, why, do)
		}
		end, err := podEnd(pod)
		switch {
		case pod.Status.Phase != corev1.PodRunning:
			return refuse("it is "+string(pod.Status.Phase), "name one that runs")
		case pod.Spec.HostNetwork:
			return refuse("it is in the node's own network", "leave --from and --to out: path host measures between the nodes")
		case err != nil:
			return refuse(err.Error(), "name a pod with an IPv4 address")
		}
		ends[role] = end
	}
	if o.Nodes = []string{ends[clientRole].node, ends[serverRole].node}; o.Nodes[0] == o.Nodes[1] {
		return nil, verr.New(verr.Usage, "cannot compare "+o.From+" and "+o.To+" with the host network", "both are on node "+o.Nodes[0]+", so the host network has no path between two nodes",
			"name pods on different nodes")
	}
	return ends, nil
}

// createServices makes those that the paths need.
func (p *Placement) createServices(ctx context.Context, paths []string) (map[string]*corev1.Service, error) {
	made := map[string]*corev1.Service{}
	for path, kind := range map[string]corev1.ServiceType{"service": corev1.ServiceTypeClusterIP, "nodeport": corev1.ServiceTypeNodePort} {
		if !slices.Contains(paths, path) {
			continue
		}
		made[path] = &corev1.Service{}
		if err := p.client.create(ctx, services, p.run.namespace, p.run.service(kind, path), made[path]); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// start waits for the pods, and starts an agent in each, so that it is not idle.
func (p *Placement) start(ctx context.Context, roles []string) (map[string]TrafficEnd, error) {
	ends, streams := make([]TrafficEnd, len(roles)), make([]*Stream, len(roles))
	pods := p.watchPods()
	g, ctx := errgroup.WithContext(ctx)
	for i, role := range roles {
		g.Go(func() error {
			pod, err := pods.running(ctx, role)
			if err != nil {
				return err
			}
			if ends[i], err = podEnd(*pod); err != nil {
				return verr.Wrap(verr.Missing, "cannot measure with pod "+ends[i].Name, err, "use a pod network with IPv4")
			}
			streams[i], err = p.client.agent(ctx, p.run.namespace, pod.Name, ends[i].node, p.run.agentFlags(role)...)
			return err
		})
	}
	err := g.Wait()
	byRole := map[string]TrafficEnd{}
	for i, role := range roles {
		if streams[i] == nil {
			continue
		}
		ends[i].Agent = len(p.Agents)
		p.Agents, byRole[role] = append(p.Agents, Agent{ends[i].node, streams[i]}), ends[i]
	}
	return byRole, err
}

// podEnd is an end in a pod, which opens it itself.
func podEnd(pod corev1.Pod) (TrafficEnd, error) {
	e := TrafficEnd{Netns: "self", Name: pod.Namespace + "/" + pod.Name, node: pod.Spec.NodeName, uid: string(pod.UID)}
	for _, ip := range append([]corev1.PodIP{{IP: pod.Status.PodIP}}, pod.Status.PodIPs...) {
		if addr, err := netip.ParseAddr(ip.IP); err == nil && addr.Is4() {
			e.Addr = addr
			return e, nil
		}
	}
	return e, errors.New("it has no IPv4 address")
}

// resolve says where each path leads.
func (p *Placement) resolve(names []string, ends map[string]TrafficEnd, made map[string]*corev1.Service) error {
	client, server, local := ends[clientRole], ends[serverRole], ends[localRole]
	if p.run.Level == Node {
		near, far := ends[clientNodeRole], ends[serverNodeRole]
		if near.node == far.node {
			return verr.New(verr.Failed, "cannot measure between two nodes", "both agents are on "+near.node, "name the nodes with --nodes")
		}
		for _, e := range []*TrafficEnd{&client, &server, &local} {
			e.Netns, e.Agent = "pod:"+e.uid, near.Agent
		}
		server.Agent = far.Agent
		near.Name, far.Name = near.node, far.node
		ends[clientNodeRole], ends[serverNodeRole] = near, far
	}
	for _, name := range names {
		path := ClusterPath{Name: name, From: client, To: server}
		switch name {
		case "host":
			path.From, path.To = ends[clientNodeRole], ends[serverNodeRole]
		case "pod-local":
			path.To = local
		case "service", "nodeport":
			if err := path.dial(made[name], p.nodeAddr(server)); err != nil {
				return err
			}
		}
		p.Paths = append(p.Paths, path)
	}
	return nil
}

// dial finds where a Service is reached.
func (p *ClusterPath) dial(s *corev1.Service, node netip.Addr) error {
	addr, err := netip.ParseAddr(s.Spec.ClusterIP)
	if s.Spec.Type == corev1.ServiceTypeNodePort {
		addr, err = node, nil
	}
	if err != nil || !addr.Is4() {
		return verr.New(verr.Missing, "cannot measure path "+p.Name, "its Service has the address "+s.Spec.ClusterIP+", which is not IPv4", "leave "+p.Name+" out")
	}
	p.Port = int(servicePorts[p.Name])
	ports := map[corev1.Protocol][]uint16{}
	for _, port := range s.Spec.Ports {
		number := port.Port
		if s.Spec.Type == corev1.ServiceTypeNodePort {
			number = port.NodePort
		}
		ports[port.Protocol] = append(ports[port.Protocol], uint16(number))
	}
	if !slices.Equal(ports[corev1.ProtocolTCP], ports[corev1.ProtocolUDP]) {
		return verr.New(verr.Missing, "cannot measure path "+p.Name, "the cluster assigned different ports to TCP and UDP", "leave "+p.Name+" out")
	}
	for _, number := range ports[corev1.ProtocolTCP] {
		p.Dial = append(p.Dial, netip.AddrPortFrom(addr, number))
	}
	return nil
}
