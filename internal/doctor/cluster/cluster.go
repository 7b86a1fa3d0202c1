// Package cluster examines the nodes of a Kubernetes cluster: it merges what doctor finds on
// each, reads how the network plugin and kube-proxy are set up, and names what of the nodes
// does not fit together. It changes nothing.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/doctor"
	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/kube/cni"
	"github.com/venturi-net/venturi/internal/verr"
)

// Options say what to examine.
type Options struct {
	Access   kube.Access
	Nodes    kube.NodesRequest
	Interval time.Duration // between two readings of counters
}

// ClusterReport is what was found in a cluster.
type ClusterReport struct {
	*doctor.Report
	Cluster ClusterView `json:"cluster"`
}

// ClusterView is what was read of a cluster beside what doctor reads on its nodes.
type ClusterView struct {
	Nodes     []NodeView           `json:"nodes"`
	Unreached []kube.UnreachedNode `json:"unreached,omitempty"`
	Plugins   []PluginView         `json:"cni"`
	Proxy     []cni.PluginSetting  `json:"kube_proxy"` // its settings; none: it has none that can be found
	unread    []kube.UnreadObject
}

// NodeView is one node.
type NodeView struct {
	kube.ClusterNode
	Uplink    string   `json:"uplink"` // the device with its address
	MTU       int      `json:"mtu"`    // of the uplink
	ProxyMode string   `json:"kube_proxy,omitempty"`
	Devices   []Device `json:"cni_devices,omitempty"`
}

// Device is a network plugin's on a node.
type Device struct {
	Plugin string `json:"plugin"`
	Name   string `json:"name"`
	MTU    int    `json:"mtu"`
	// Checksums: it leaves them to the device below.
	Checksums bool `json:"checksum_offload"`
}

// PluginView is a network plugin that is there, and its settings.
type PluginView struct {
	Name     string              `json:"name"`
	Settings []cni.PluginSetting `json:"settings"`
}

// exam examines nodes through agents on them.
type exam struct {
	fleet *fleet.Fleet
	nodes []kube.ClusterNode // those of the fleet, in its order
	args  []string           // of doctor
}

// readLimit is how long the nodes may take to be read, beside the time between two readings.
const readLimit = 5 * time.Minute

// Examine starts an agent on each node, reads, and removes the agents again. Errors are for
// people; what was read before one is in the report.
func Examine(ctx context.Context, q Options) (r *ClusterReport, err error) {
	if err := q.Access.Check(); err != nil {
		return nil, err
	}
	if err := q.Nodes.Check(); err != nil {
		return nil, err
	}
	client, err := kube.Open(q.Access)
	if err != nil {
		return nil, err
	}
	q.Nodes.Deadline = readLimit + 2*q.Interval
	on, err := client.PlaceOnNodes(ctx, q.Nodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, on.Close()) }()
	names, streams := on.Streams()
	f, failed := fleet.FromStreams(ctx, names, streams)
	defer f.Close()
	e := exam{fleet: f, nodes: on.Nodes, args: []string{"doctor", "--json", "--interval", q.Interval.String()}}
	r = &ClusterReport{Cluster: ClusterView{Unreached: on.Unreached, Plugins: []PluginView{}}}
	e.drop(failed, &r.Cluster)
	q.Nodes.Say("reading %d nodes", len(e.nodes))
	found, unread := client.ReadConfig(ctx)
	r.Cluster.config(found, unread)
	return r, e.examine(ctx, r)
}

// drop leaves out the nodes whose agents do not answer: the fleet does not have them.
func (e *exam) drop(failed []error, v *ClusterView) {
	var left []kube.ClusterNode
	for i, n := range e.nodes {
		if failed[i] == nil {
			left = append(left, n)
			continue
		}
		v.markUnreached(n, failed[i])
	}
	e.nodes = left
}

// markUnreached notes a node that could not be examined.
func (v *ClusterView) markUnreached(n kube.ClusterNode, err error) {
	v.Unreached = append(v.Unreached, kube.UnreachedNode{Name: n.Name, Reason: err.Error()})
}

// config notes which plugins show themselves in the API, and their settings.
func (v *ClusterView) config(found cni.APIObjects, unread []kube.UnreadObject) {
	v.unread = unread
	for _, p := range cni.Table {
		if p.Shows(found) {
			v.Plugins = append(v.Plugins, PluginView{p.Name, p.Settings(found)})
		}
	}
	if cni.KubeProxy.Shows(found) {
		v.Proxy = cni.KubeProxy.Settings(found)
	}
}

// peer is the address of the node after one; the zero value: there is no other.
func (e exam) peer(i int) netip.Addr {
	next := e.nodes[(i+1)%len(e.nodes)]
	if len(e.nodes) == 1 {
		return netip.Addr{}
	}
	return next.Addr
}

// examine reads each node, runs doctor on it, and judges. A node on which that fails costs
// the report that node alone. Error: it failed on all of them, or ctx ended.
func (e exam) examine(ctx context.Context, r *ClusterReport) error {
	views, failed := e.readNodes(ctx)
	replies := e.fleet.RunEach(ctx, func(i int) []string {
		if peer := e.peer(i); peer.IsValid() {
			return append(slices.Clone(e.args), "--peer", peer.String())
		}
		return e.args
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var reports []doctor.MachineReport
	for i, n := range e.nodes {
		found := &doctor.Report{}
		if failed[i] == nil {
			failed[i] = replies[i].Err
		}
		if failed[i] == nil {
			if err := json.Unmarshal(replies[i].Stdout, found); err != nil {
				failed[i] = fmt.Errorf("read what doctor found: %w", err)
			}
		}
		if failed[i] != nil {
			r.Cluster.markUnreached(n, failed[i])
			continue
		}
		views[i].ProxyMode = found.KubeProxy
		r.Cluster.Nodes = append(r.Cluster.Nodes, views[i])
		reports = append(reports, doctor.MachineReport{Machine: n.Name, Report: found})
	}
	if len(reports) == 0 {
		first := r.Cluster.Unreached[0]
		return verr.New(verr.Failed, "cannot examine any node", first.Name+": "+first.Reason, "see `kubectl get nodes`, and run it again")
	}
	r.Report = doctor.Merge(reports, func(command string, _ []string) string { return command })
	r.applyRules()
	return nil
}

// readNodes reads the devices of each node. failed has the errors of those that could not be read.
func (e exam) readNodes(ctx context.Context) (views []NodeView, failed []error) {
	views, failed = make([]NodeView, len(e.nodes)), make([]error, len(e.nodes))
	var reading sync.WaitGroup
	for i, c := range e.fleet.Agents() {
		reading.Go(func() { views[i], failed[i] = readNode(ctx, c, e.nodes[i], e.peer(i)) })
	}
	reading.Wait()
	return views, failed
}

func readNode(ctx context.Context, c *agent.Client, of kube.ClusterNode, peer netip.Addr) (NodeView, error) {
	n := NodeView{ClusterNode: of}
	facts, _, err := c.Facts(ctx, nil)
	if err != nil {
		return n, err
	}
	for _, d := range facts.Devices {
		for _, p := range append([]cni.Plugin{cni.KubeProxy}, cni.Table...) {
			if p.Makes(d.Name) {
				n.Devices = append(n.Devices, Device{p.Name, d.Name, d.MTU, d.Features["tx-checksum-ip-generic"]})
			}
		}
	}
	where := agent.Location{Option: "node", Namespace: "self", Addr: of.Addr}
	if peer.IsValid() {
		where.PeerAddrs = []netip.Addr{peer}
	}
	end, err := c.Locate(ctx, where)
	if err != nil {
		return n, err
	}
	n.Uplink = end.Device
	for _, d := range facts.Devices {
		if d.Name == n.Uplink {
			n.MTU = d.MTU
		}
	}
	return n, nil
}

// applyRules applies the rules of clusters.
func (r *ClusterReport) applyRules() {
	r.Noun = "node"
	r.Coverage.Rules += len(Table)
	for _, rule := range Table {
		for _, f := range rule.Check(r.Cluster) {
			r.Add(rule.complete(f))
		}
	}
}

// ExitCode is that of doctor: whether there is more than notes.
func (r *ClusterReport) ExitCode() int {
	if worst := r.Worst(); worst == doctor.Error || worst == doctor.Warning {
		return verr.Findings
	}
	return verr.OK
}

// names lists nodes.
func names(nodes []NodeView) (all []string) {
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return all
}

// byValue groups nodes by a value that they have, in the order of the nodes.
func byValue(nodes []NodeView, value func(NodeView) string) (values []string, groups map[string][]NodeView) {
	groups = map[string][]NodeView{}
	for _, n := range nodes {
		v := value(n)
		if v == "" {
			continue
		}
		if groups[v] == nil {
			values = append(values, v)
		}
		groups[v] = append(groups[v], n)
	}
	return values, groups
}

// nodeList says which nodes of all have something: "all 3 nodes", "node a, b".
func nodeList(some, all []NodeView) string {
	switch {
	case len(all) > 1 && len(some) == len(all):
		return fmt.Sprintf("all %d nodes", len(all))
	case len(some) > maxNames:
		return fmt.Sprintf("%d of %d nodes", len(some), len(all))
	}
	return strings.Join(names(some), ", ")
}

// maxNames is how many nodes are listed by their names.
const maxNames = 5
