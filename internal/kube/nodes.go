package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/venturi-net/venturi/internal/verr"
)

// NodesRequest is what agents on nodes need of a cluster.
type NodesRequest struct {
	Options // Nodes: those to reach; empty: all
	// Tune: the agents change the nodes. All of the nodes are those that take new pods.
	Tune     bool
	Lenient  bool // a named node that the cluster does not have is one that cannot be reached
	Deadline time.Duration
	// Traffic makes the agents ends of traffic, at the level of the options: pods of their own, or
	// the nodes. Without it they read all of their nodes.
	Traffic   bool
	ZoneLabel string // whose value is the zone of a node; empty: none has one
	// Plan is told the nodes before anything is made, and gives the deadline; nil: it is Deadline.
	Plan func(nodes []ClusterNode) (deadline time.Duration, err error)
	// Trial are the arguments of this program in one more pod, which has rights of its own in the
	// cluster. All that is made is there until that program ends, unless it is closed before. None:
	// there is no such pod.
	Trial      []string
	TrialToken string // by which the cluster's journal knows the trial
	NoAgents   bool   // there is no other pod
	Command    string // what to tell others of it
	Wait       bool   // for another run
	Say        func(format string, args ...any)
}

// Check refuses what makes no sense, before anything is asked of a cluster.
func (q NodesRequest) Check() error {
	for i, name := range q.Nodes {
		if slices.Contains(q.Nodes[:i], name) {
			return verr.New(verr.Usage, "cannot "+q.verb()+" node "+name+" twice", "--nodes names it twice", "name it once")
		}
	}
	return q.checkImage()
}

// verb is what is done with the nodes.
func (q NodesRequest) verb() string {
	if q.Tune {
		return "tune"
	}
	return "examine"
}

// ClusterNode is a node of the cluster.
type ClusterNode struct {
	Name    string     `json:"name"`
	Addr    netip.Addr `json:"address"` // its InternalIP
	Kubelet string     `json:"kubelet"`
	Kernel  string     `json:"kernel"`
	OS      string     `json:"os"`
	Ready   bool       `json:"ready"`
	// Unschedulable: it takes no new pods.
	Unschedulable bool   `json:"-"`
	Zone          string `json:"zone,omitempty"` // see [NodesRequest.ZoneLabel]
}

// UnreachedNode is a node without an agent, and why.
type UnreachedNode struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// NodeAgents are what an examination has in a cluster.
type NodeAgents struct {
	*Placement
	Nodes     []ClusterNode // those of the agents, in their order
	Ends      []TrafficEnd  // likewise
	Unreached []UnreachedNode
}

// Streams are those of the agents, and the names of their nodes.
func (a *NodeAgents) Streams() (names []string, streams []net.Conn) {
	for _, one := range a.Agents {
		names, streams = append(names, one.Node), append(streams, one.Stream)
	}
	return names, streams
}

// nodeRole is the role of the agent on the nth node.
func nodeRole(n int) string { return fmt.Sprintf("%s%d", nodeRolePrefix, n) }

const nodeRolePrefix = "node-"

// PlaceOnNodes starts an agent on every node that is ready, or on those that are named. A node
// on which none starts is no error. With an error nothing is left. Errors are for people.
func (c *Client) PlaceOnNodes(ctx context.Context, q NodesRequest) (a *NodeAgents, err error) {
	if !q.Traffic {
		q.Level = Node
	}
	if err := c.checkRights(ctx, q.nodeNeeds()); err != nil {
		return nil, err
	}
	a = &NodeAgents{}
	var nodes []ClusterNode
	if !q.NoAgents {
		nodes, err = c.chooseNodes(ctx, q, a)
	}
	if err == nil && q.Plan != nil {
		q.Deadline, err = q.Plan(nodes)
	}
	if err != nil {
		return nil, err
	}
	r := &run{Options: q.Options, id: cmp.Or(q.TrialToken, fmt.Sprintf("%05x", rand.N(1<<20))), command: q.Command, deadline: q.Deadline, readsFilter: !q.Traffic, changesNodes: q.Tune, trial: q.Trial}
	r.namespace, r.Nodes = cmp.Or(q.Namespace, r.claimName()), nil
	var roles []string
	if q.Trial != nil {
		roles = append(roles, leaseRole)
	}
	for i, n := range nodes {
		r.Nodes, roles = append(r.Nodes, n.Name), append(roles, nodeRole(i))
	}
	if len(q.Tolerations) == 0 {
		r.Tolerations = []corev1.Toleration{toleratesAll}
	}
	a.Placement = &Placement{client: c, run: r}
	defer func() {
		if err != nil {
			a, err = nil, errors.Join(err, a.Close())
		}
	}()
	if err := a.claim(ctx, q.Wait, q.Say, roles[0]); err != nil {
		return a, err
	}
	if err := a.createPods(ctx, roles[1:]); err != nil {
		return a, err
	}
	q.Say("waiting for %d pods in namespace %s", len(roles), r.namespace)
	a.startEach(ctx, nodes, q.Traffic)
	if q.Trial != nil {
		if _, err := a.watchPods().running(ctx, leaseRole); err != nil {
			return a, cmp.Or(a.TrialFailure(ctx), err)
		}
	}
	if err := ctx.Err(); err != nil {
		return a, context.Cause(ctx)
	}
	if len(a.Agents) == 0 && len(nodes) > 0 {
		return a, verr.New(verr.Failed, "cannot "+q.verb()+" any node", a.Unreached[0].Name+": "+a.Unreached[0].Reason, "see `kubectl get events -n "+r.namespace+"`")
	}
	return a, nil
}

// chooseNodes gives those to examine.
func (c *Client) chooseNodes(ctx context.Context, o NodesRequest, a *NodeAgents) (chosen []ClusterNode, err error) {
	all, err := c.nodes(ctx, o.NodeSelector, o.ZoneLabel)
	if err != nil {
		return nil, err
	}
	var known []string
	for _, n := range all {
		known = append(known, n.Name)
		switch {
		case len(o.Nodes) > 0 && !slices.Contains(o.Nodes, n.Name):
		case len(o.Nodes) == 0 && o.Tune && n.Unschedulable:
		case !n.Ready:
			a.Unreached = append(a.Unreached, UnreachedNode{n.Name, "the node is not ready"})
		default:
			chosen = append(chosen, n)
		}
	}
	for _, name := range o.Nodes {
		if o.Lenient && !slices.Contains(known, name) {
			a.Unreached = append(a.Unreached, UnreachedNode{name, "the cluster has no such node"})
			continue
		}
		if !slices.Contains(known, name) {
			return nil, verr.New(verr.Usage, "cannot "+o.verb()+" node "+name, "the nodes are "+strings.Join(known, ", "), "choose from these, or name none for all")
		}
	}
	if len(chosen) == 0 {
		return nil, verr.New(verr.Missing, "cannot "+o.verb()+" any node", "no requested node is ready", "see `kubectl get nodes`")
	}
	return chosen, nil
}

// nodes lists those of the cluster with some labels, by their names, with their zones by a label.
func (c *Client) nodes(ctx context.Context, labels map[string]string, zoneLabel string) (all []ClusterNode, err error) {
	var terms []string
	for key, value := range labels {
		terms = append(terms, key+"="+value)
	}
	var list corev1.NodeList
	if err := c.list(ctx, nodes, "", strings.Join(terms, ","), &list); err != nil {
		return nil, err
	}
	for _, n := range list.Items {
		info := n.Status.NodeInfo
		node := ClusterNode{Name: n.Name, Kubelet: info.KubeletVersion, Kernel: info.KernelVersion, OS: info.OSImage, Zone: n.Labels[zoneLabel], Unschedulable: n.Spec.Unschedulable}
		for _, address := range n.Status.Addresses {
			if addr, err := netip.ParseAddr(address.Address); err == nil && address.Type == corev1.NodeInternalIP && addr.Is4() {
				node.Addr = addr
			}
		}
		node.Ready = slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		all = append(all, node)
	}
	slices.SortFunc(all, func(a, b ClusterNode) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// startEach starts the agents, each as soon as its pod runs.
func (a *NodeAgents) startEach(ctx context.Context, nodes []ClusterNode, traffic bool) {
	streams, ends, failed := make([]*Stream, len(nodes)), make([]TrafficEnd, len(nodes)), make([]error, len(nodes))
	poll := a.watchPods()
	var starting sync.WaitGroup
	for i, n := range nodes {
		starting.Go(func() {
			var pod *corev1.Pod
			if pod, failed[i] = poll.running(ctx, nodeRole(i)); failed[i] != nil {
				return
			}
			var noAddr error
			if ends[i], noAddr = podEnd(*pod); noAddr != nil && traffic {
				failed[i] = noAddr
				return
			}
			streams[i], failed[i] = a.client.agent(ctx, a.run.namespace, pod.Name, n.Name, a.run.agentFlags(nodeRole(i))...)
		})
	}
	starting.Wait()
	for i, n := range nodes {
		if failed[i] != nil {
			a.Unreached = append(a.Unreached, UnreachedNode{n.Name, failed[i].Error()})
			continue
		}
		ends[i].Agent = len(a.Agents)
		a.Agents, a.Nodes, a.Ends = append(a.Agents, Agent{n.Name, streams[i]}), append(a.Nodes, n), append(a.Ends, ends[i])
	}
}
