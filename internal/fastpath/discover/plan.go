package discover

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// Plan is what a fast path would carry on a node, and what it would leave to the slow path.
type Plan struct {
	Kind   string `json:"kind,omitempty"`   // [fastpath.VXLAN], [fastpath.Geneve], [fastpath.IPIP], [fastpath.Routed], [fastpath.Routed6] or [fastpath.VXLAN6]; empty: nothing was found that it could follow
	Wire   string `json:"wire,omitempty"`   // device that leads to other nodes
	Layers string `json:"layers,omitempty"` // what the wire stands on: "VLAN 100 on bond0, 802.3ad bond of eth0 and eth1"; empty: nothing
	Tunnel string `json:"tunnel,omitempty"` // vxlan or ipip device, or the first of Tunnels
	// Tunnels are the geneve devices, each to one peer.
	Tunnels []string `json:"tunnels,omitempty"`
	VNI     int      `json:"vni,omitempty"`  // 0 also if those have several
	Port    int      `json:"port,omitempty"` // UDP port of the tunnel
	// Off says why nothing is carried on this node; empty: nothing keeps everything slow.
	Off string `json:"off,omitempty"`
	// Unreplied says why one-way UDP is not carried; empty: it is.
	Unreplied string `json:"unreplied,omitempty"`
	// Uncarried are other kinds of traffic that stay slow.
	Uncarried []fastpath.Uncarried `json:"uncarried,omitempty"`
	// Counters are those that miss carried packets; nil: there is nothing to follow.
	Counters *fastpath.BypassedCounters `json:"counters,omitempty"`
	// KeepCounters are the kinds of them for whose sake nothing is carried.
	KeepCounters []string      `json:"keep_counters,omitempty"`
	Pods         []PlannedPod  `json:"pods"`
	Peers        []PlannedPeer `json:"peers"`
	// LeftAlone are other devices of the node that packets of pods may take, which stay slow.
	LeftAlone []topology.Refusal `json:"left"`
}

// Outlook is what becomes of the flows of a pod, or to a peer.
type Outlook string

// Outlooks.
const (
	Carried Outlook = "carried" // its established flows are carried
	Waiting Outlook = "waiting" // they are carried as soon as the node knows enough of it
	Slow    Outlook = "slow"    // they stay on the slow path
)

// PlannedPod is a device that leads to a pod of this node.
type PlannedPod struct {
	Device  string  `json:"device"`
	Addr    string  `json:"addr,omitempty"` // empty: it is not known
	Outlook Outlook `json:"outlook"`
	Reason  string  `json:"why,omitempty"` // why it is not carried
}

// PlannedPeer is a next hop to pods of other nodes.
type PlannedPeer struct {
	Addr    netip.Addr     `json:"addr"`             // on the wire
	Device  string         `json:"device,omitempty"` // geneve device that leads there
	Routes  []netip.Prefix `json:"routes,omitempty"`
	Outlook Outlook        `json:"outlook"`
	Reason  string         `json:"why,omitempty"` // why it is not carried
}

// CarriesAny tells whether the flows of some pod to some peer are carried, or will be.
func (p *Plan) CarriesAny() bool {
	pod := func(pod PlannedPod) bool { return pod.Outlook != Slow }
	peer := func(peer PlannedPeer) bool { return peer.Outlook != Slow }
	return p.Off == "" && slices.ContainsFunc(p.Pods, pod) && slices.ContainsFunc(p.Peers, peer)
}

// CarriesAll tells whether nothing stays slow that the plan names.
func (p *Plan) CarriesAll() bool {
	pod := func(pod PlannedPod) bool { return pod.Outlook == Slow }
	peer := func(peer PlannedPeer) bool { return peer.Outlook == Slow }
	return p.CarriesAny() && len(p.LeftAlone) == 0 && !slices.ContainsFunc(p.Pods, pod) && !slices.ContainsFunc(p.Peers, peer)
}

// Keep has counters of some kinds kept true: where there are any, nothing is carried.
func (p *Plan) Keep(kinds []string) {
	p.KeepCounters = kinds
	if p.Off == "" && p.Counters != nil {
		p.Off = p.Counters.Conflict(kinds)
	}
}

// stampOf6 tells packets of the fast path for IPv6 from those of the one for IPv4 on the same node.
const stampOf6 = 1

// Config is what a daemon needs to carry what the plan says.
func (p *Plan) Config() fastpath.Config {
	c := fastpath.Config{Kind: p.Kind, Port: uint16(p.Port), Devices: topology.DeviceNames{Wire: p.Wire, Node: true}, KeepCounters: p.KeepCounters}
	if p.Kind == fastpath.Routed6 || p.Kind == fastpath.VXLAN6 {
		c.Stamp = stampOf6
	}
	if p.Tunnel != "" {
		c.Devices.Tunnels = p.outDevices()
	}
	if p.Kind == fastpath.Geneve {
		c.Devices.GenevePort = p.Port // also those that come later
	}
	return c
}

// Find makes the plan of the calling thread's network namespace for a version of IP.
func Find(family topology.Family) (*Plan, error) {
	p, n, err := choose(family)
	if err != nil {
		return nil, err
	}
	p.Layers, p.LeftAlone = n.layers(p.Wire), n.leftAlone(p)
	if p.Kind == "" {
		n.refuseAll(p)
		return p, nil
	}
	found, err := fastpath.Inspect(p.Config())
	if err != nil {
		return nil, fmt.Errorf("judge the network of this node: %w", err)
	}
	p.Off, p.Unreplied, p.Uncarried, p.Counters = found.Off, found.Unreplied, found.Uncarried, &found.Counters
	if why := n.obstacle(); why != "" {
		p.Off = why
	}
	p.Pods, p.Peers = n.pods(p, found.Topology), n.peers(p, found.Topology)
	return p, nil
}

// Choose finds which devices a fast path of this node would follow, and in which way, as [Find] does:
// a plan without pods and peers, for a fraction of the time.
func Choose(family topology.Family) (*Plan, error) {
	p, _, err := choose(family)
	return p, err
}

func choose(family topology.Family) (*Plan, *node, error) {
	n, err := readNode(family)
	if err != nil {
		return nil, nil, fmt.Errorf("read the network of this node: %w", err)
	}
	return n.choose(), n, nil
}

// refuseAll fills in a plan that has nothing to follow.
func (n *node) refuseAll(p *Plan) {
	p.Off = "no route leads to pods of other nodes, neither by a vxlan, geneve or ipip device nor by a next hop on a wire"
	if n.family == topology.IPv6 {
		p.Off = "no IPv6 route leads to pods of other nodes, neither by a vxlan device over IPv6 nor by a next hop on a wire"
	}
	if why := n.obstacle(); why != "" {
		p.Off = why
	}
	if n.family == topology.IPv4 && hasIPv6() {
		p.Off += "; there are routes to other nodes over IPv6: \"venturi fastpath plan --ipv6\" says what can be carried"
	}
	p.Pods, p.Peers = []PlannedPod{}, []PlannedPeer{}
	for _, l := range n.links {
		if topology.IsPodLink(l) {
			p.Pods = append(p.Pods, PlannedPod{Device: l.Attrs().Name, Outlook: Slow, Reason: "there is no peer that its packets could be carried to"})
		}
	}
}

// hasIPv6 tells whether there is something to follow for IPv6.
func hasIPv6() bool {
	p, err := Choose(topology.IPv6)
	return err == nil && p.Kind != ""
}

// refusals joins what is said of a device.
func refusals(device string, all []topology.Refusal) string {
	var why []string
	for _, r := range all {
		if r.Device == device && !slices.Contains(why, r.Reason) {
			why = append(why, r.Reason)
		}
	}
	return strings.Join(why, "; ")
}
