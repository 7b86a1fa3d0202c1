// Package cluster examines the nodes of a Kubernetes cluster: it merges what doctor finds on
// each, reads how the network plugin and kube-proxy are set up, and names what of the nodes
// does not fit together. It changes nothing.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

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
	on    *kube.NodeAgents
	args  []string // of doctor
	say   func(format string, args ...any)
}

// readLimit is how long the nodes may take to be read, beside the time between two readings.
const readLimit = 5 * time.Minute

// Examine starts an agent on each node, reads, and removes the agents again. Errors are for
// people; what was read before one is in the report.
func Examine(ctx context.Context, q Options) (r *ClusterReport, err error) {
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
	e := exam{on: on, say: q.Nodes.Say, args: []string{"doctor", "--json", "--interval", q.Interval.String()}}
	names, streams := make([]string, len(on.Agents)), make([]net.Conn, len(on.Agents))
	for i, a := range on.Agents {
		names[i], streams[i] = a.Node, a.Stream
	}
	if e.fleet, err = fleet.FromStreams(ctx, names, streams); err != nil {
		return nil, err
	}
	defer e.fleet.Close()
	e.say("reading %d nodes", len(on.Agents))
	r = &ClusterReport{Cluster: ClusterView{Unreached: on.Unreached, Plugins: []PluginView{}}}
	found, unread := client.ReadConfig(ctx)
	r.Cluster.config(found, unread)
	if err := e.readNodes(ctx, &r.Cluster); err != nil {
		return nil, err
	}
	return r, e.examineNodes(ctx, r)
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
	next := e.on.Nodes[(i+1)%len(e.on.Nodes)]
	if len(e.on.Nodes) == 1 {
		return netip.Addr{}
	}
	return next.Addr
}

// readNodes reads the devices of each node.
func (e exam) readNodes(ctx context.Context, v *ClusterView) error {
	v.Nodes = make([]NodeView, len(e.on.Nodes))
	var g errgroup.Group
	for i, c := range e.fleet.Agents() {
		g.Go(func() (err error) {
			v.Nodes[i], err = readNode(ctx, c, e.on.Nodes[i], e.peer(i))
			return err
		})
	}
	return g.Wait()
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

// examineNodes runs doctor on the nodes, and judges.
func (e exam) examineNodes(ctx context.Context, r *ClusterReport) error {
	replies := e.fleet.RunEach(ctx, func(i int) []string {
		if peer := e.peer(i); peer.IsValid() {
			return append(slices.Clone(e.args), "--peer", peer.String())
		}
		return e.args
	})
	var reports []doctor.MachineReport
	for i, a := range replies {
		if a.Err != nil {
			continue
		}
		found := &doctor.Report{}
		if err := json.Unmarshal(a.Stdout, found); err != nil {
			return fmt.Errorf("read what doctor found on %s: %w", a.Machine.Name, err)
		}
		r.Cluster.Nodes[i].ProxyMode = found.KubeProxy
		reports = append(reports, doctor.MachineReport{Machine: a.Machine.Name, Report: found})
	}
	if len(reports) == 0 {
		return fleet.Failed(replies)
	}
	r.Report = doctor.Merge(reports, func(command string, _ []string) string { return command })
	r.applyRules()
	return fleet.Failed(replies)
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
