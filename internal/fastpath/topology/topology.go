package topology

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Topology describes how a namespace delivers packets to its pods and to other hosts, as read from
// the kernel's tables.
type Topology struct {
	Pods     []LocalPod
	NextHops []NextHop
	TC       map[int]TCState // by ifindex: devices on the way to pods and peers
	Clsacts  []int           // by ifindex: all devices that have a clsact
	Refusals []Refusal
	// Unread are links that may lead to pods and were not looked at.
	Unread int
	// PodsWithXDP are pods that are excluded because the pod's end has an XDP program.
	PodsWithXDP []LocalPod
	// TooMany says of which objects there are so many that they are not all read: then nothing else is known, and
	// nothing may be carried. Empty means none.
	TooMany string
	// PerPacket names a route or policy rule that may treat packets of an established flow
	// differently, so that the next one may go elsewhere. Empty means none.
	PerPacket string
	// ConfMTUs are those that the pods' and next hops' MTUs come from.
	ConfMTUs []ConfMTU
	// Advertised: there are routes from router advertisements, by a router. The next one may change
	// which of them is preferred, without an announcement.
	Advertised bool
	// DeviceConfs are the settings of the devices that pods' packets come in by, sorted by ifindex.
	DeviceConfs []DeviceConf
	// MissingFDB are neighbours that may be pods but have no FDB entry on their bridge.
	MissingFDB []BridgeNeighbour
	// Ageing is after how long without a frame a bridge of pods removes an FDB entry, the least of
	// all. Zero means at once, or that there is no bridge.
	Ageing time.Duration
}

// Refusal is a pod or next hop that is excluded, and why.
type Refusal struct {
	Device string `json:"device"`
	Reason string `json:"why"`
}

// LocalPod describes the way to a pod of this host.
type LocalPod struct {
	Device      int    // ifindex of the host's end of the pod's link
	NeighDevice int    // ifindex of the device with the pod's neighbour entry: Device, or its bridge
	MTU         int    // largest IP packet that arrives unfragmented, bytes
	PodEnd      PodEnd // zero if it is gone, or need not be checked
	Addr        netip.Addr
	MAC         net.HardwareAddr // of the pod
	Gateway     net.HardwareAddr // source MAC of the packets that the pod receives
}

// NextHop describes the way to a next hop outside of this host.
type NextHop struct {
	Device         int              // ifindex of the sending device: a tunnel, or the wire
	MAC            net.HardwareAddr // of the next hop, on that device; nil: there are none in the tunnel
	MTU            int              // largest IP packet that arrives unfragmented, bytes
	RouteMTU       int              // of the route to the tunnel's peer, configured or learned, bytes; 0: none
	WireDevice     int              // ifindex of the device on the wire
	SrcMAC, DstMAC net.HardwareAddr // on the wire
	Addr           netip.Addr       // of the next hop on the wire
	Encap          *Encap           // nil: no tunnel
	InnerAddr      netip.Addr       // of the next hop as a neighbour on a geneve device, which carried packets do not verify; else zero
}

// DeviceNames names the devices that [Read] examines.
type DeviceNames struct {
	Wire    string   `json:"wire"`
	Tunnels []string `json:"tunnels"` // vxlan, geneve or ipip devices; empty: peers are directly on the wire
	// GenevePort has the tunnels be all geneve devices with this UDP port, of which there is one to each
	// peer: they come and go. 0: Tunnels are all.
	GenevePort int      `json:"geneve_port,omitempty"`
	Pods       []string `json:"pods"` // the host's ends of the pods' links
	Family     Family   `json:"-"`    // of the addresses of pods and routes
	// Node is a host that somebody else has wired: every link to another namespace may lead
	// to a pod, and a wire must be of a kind that is proven.
	Node bool `json:"node,omitempty"`
}

// deviceMAC is a MAC on the link of a device.
type deviceMAC struct {
	device int
	mac    string
}

// reader holds the tables, which are read once, and indexes of what is looked up for each pod or
// peer.
type reader struct {
	*Tables
	routeIndex
	findings
	node         bool // as of [DeviceNames]
	owns         ProgramOwner
	byIndex      map[int]netlink.Link
	byName       map[string]netlink.Link
	querier      *rtnlQuerier
	arpOf        map[int][]neighbourEntry // by ifindex
	arpByMAC     map[deviceMAC][]neighbourEntry
	arpByAddr    map[Neighbour]neighbourEntry
	fdbOf        map[int][]neighbourEntry // by port of a bridge, unless that has too many
	fdbSizes     map[int]int              // by ifindex of a bridge or a tunnel
	geneves      map[int][]byte           // by ifindex: the kernel's messages about geneve devices
	geneveTo     map[geneveEnd][]string   // names of geneve devices
	bySourcePort string                   // a policy rule that may treat packets of a tunnel over UDP differently; "": none
	linkReasons  map[int]string           // by ifindex: an unproven attribute of the device
	wireReasons  map[int]string           // by ifindex: why the device must not be the wire, of those that were audited
}

// routeIndex is what is kept of routes and policy rules.
type routeIndex struct {
	hostRoutes       map[Neighbour]bool // of the main table: to single addresses, without a gateway
	mtuRoutes        map[mtuRoute]int   // least MTU of routes, of all tables
	gateways         map[Neighbour]bool // of the routes of all tables
	perPacket        string             // see [Topology]
	uncertainDevices map[int]string     // by ifindex: why the device's routes may treat packets of a flow differently
	advertised       bool               // as [Topology.Advertised]
}

func newRouteIndex() routeIndex {
	return routeIndex{hostRoutes: map[Neighbour]bool{}, mtuRoutes: map[mtuRoute]int{}, gateways: map[Neighbour]bool{}, uncertainDevices: map[int]string{}}
}

// findings are what comes up while pods and peers are looked up.
type findings struct {
	refused    []Refusal
	withXDP    []LocalPod        // see [Topology]
	confMTUs   []ConfMTU         // that were read
	geneveMACs map[deviceMAC]int // of peers on the wire: ifindex of the geneve device that leads there
}

func (r *reader) refuse(l netlink.Link, why string) {
	r.refused = append(r.refused, Refusal{l.Attrs().Name, why})
}

func (r *reader) read() error {
	if r.err != nil {
		return r.err
	}
	if err := r.parseLinks(); err != nil {
		return err
	}
	r.indexNeighbours()
	return r.readRoutes()
}

func (r *reader) indexNeighbours() {
	r.arpOf, r.arpByMAC, r.fdbOf = map[int][]neighbourEntry{}, map[deviceMAC][]neighbourEntry{}, map[int][]neighbourEntry{}
	r.arpByAddr, r.fdbSizes = map[Neighbour]neighbourEntry{}, map[int]int{}
	for _, n := range r.arp {
		if len(n.HardwareAddr) == macLen && isUsableState(n.State) && isOf(nlmsg.ToAddr(n.IP), r.family) {
			at := deviceMAC{n.LinkIndex, string(n.HardwareAddr)}
			r.arpOf[n.LinkIndex], r.arpByMAC[at] = append(r.arpOf[n.LinkIndex], n), append(r.arpByMAC[at], n)
			r.arpByAddr[Neighbour{n.LinkIndex, nlmsg.ToAddr(n.IP)}] = n
		}
	}
	for i := range r.fdb {
		r.fdbSizes[r.fdb[i].owner]++
	}
	for _, n := range r.fdb {
		if n.MasterIndex != 0 && r.fdbSizes[n.owner] <= maxFDB && r.crowded[n.owner] == "" {
			r.fdbOf[n.LinkIndex] = append(r.fdbOf[n.LinkIndex], n)
		}
	}
}

const familyBridge = unix.AF_BRIDGE

const macLen = 6

// isUsableState reports whether the kernel sends to a neighbour in this state.
func isUsableState(state int) bool { return state&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) == 0 }

// unknownFDBAttr names an unproven attribute of the FDB entry of a MAC behind a port; "" means
// none.
func (r *reader) unknownFDBAttr(mac net.HardwareAddr, port int) (why string) {
	for _, n := range r.fdbOf[port] {
		if bytes.Equal(n.HardwareAddr, mac) {
			why = cmp.Or(why, n.unknownAttr)
		}
	}
	return why
}

// unsupportedBridgeReason says why the fast path must not bypass a bridge; "" means that it may.
func unsupportedBridgeReason(l netlink.Link) string {
	b, ok := l.(*netlink.Bridge)
	switch {
	case !ok:
		return fmt.Sprintf("is a port of %s, which is not a bridge but of kind %s", l.Attrs().Name, l.Type())
	case b.VlanFiltering != nil && *b.VlanFiltering:
		return b.Name + " filters VLANs"
	}
	return ""
}

// wireNextHops returns the neighbours on a wire.
func (r *reader) wireNextHops(name string) (peers []NextHop) {
	l, ok := r.byName[name]
	if !ok || !IsUp(l) {
		return nil
	}
	a := l.Attrs()
	if why := cmp.Or(r.unprovenWire(l), r.uncertainDevices[a.Index], r.notRouter(name), r.crowded[a.Index]); why != "" {
		r.refuse(l, why)
		return nil
	}
	if why := r.unparsed[a.Index]; why != "" { // the others do not depend on it
		r.refuse(l, why)
	}
	for _, n := range r.arpOf[a.Index] {
		if n.unknownAttr != "" {
			r.refuse(l, fmt.Sprintf("its neighbour %v has %s", n.IP, n.unknownAttr))
			continue
		}
		size := r.leastRouteMTU(a.Index, n.IP, min(a.MTU, r.confMTU(a.Index, true)))
		peers = append(peers, NextHop{Device: a.Index, MAC: n.HardwareAddr, MTU: size, WireDevice: a.Index, SrcMAC: a.HardwareAddr, DstMAC: n.HardwareAddr, Addr: nlmsg.ToAddr(n.IP)})
	}
	return peers
}

// tunnelNextHops returns the next hops behind a tunnel device.
func (r *reader) tunnelNextHops(name string) (peers []NextHop, err error) {
	l, ok := r.byName[name]
	if !ok || !IsUp(l) {
		return nil, nil
	}
	if l.Attrs().NetNsID >= 0 { // it keeps to the routes and rules of the namespace in which it was made
		r.refuse(l, "was created in another network namespace, and its packets pass through that one")
		return nil, nil
	}
	switch tunnel := l.(type) {
	case *netlink.Geneve:
		return r.geneveNextHops(tunnel)
	case *netlink.Vxlan:
		if r.family == IPv6 {
			return r.vxlan6NextHops(tunnel)
		}
		return r.vxlanNextHops(tunnel)
	}
	if l.Type() == kindIPIP {
		return r.ipipNextHops(l)
	}
	return nil, nil
}

// vxlanNextHops returns the next hops behind a vxlan device over IPv4: its forwarding entries.
func (r *reader) vxlanNextHops(tunnel *netlink.Vxlan) (peers []NextHop, err error) {
	a := tunnel.Attrs()
	dontFragment, perPacket, err := readVXLANHeader(a.Index)
	if ok, err := r.acceptTunnel(tunnel, reasonWith(perPacketHeaders, perPacket), err, noMAC(tunnel)); !ok {
		return nil, err
	}
	routeDevice := 0
	if r.inVRF(tunnel.VtepDevIndex) { // the tunnel's packets are routed by the VRF
		routeDevice = tunnel.VtepDevIndex
	}
	ttl := tunnel.TTL
	if ttl == 0 {
		if ttl, err = defaultTTL(); err != nil {
			return nil, err
		}
	}
	for _, n := range r.fdb {
		if n.LinkIndex != a.Index || len(n.HardwareAddr) != macLen || n.MasterIndex != 0 || isFlood(n.HardwareAddr) {
			continue
		}
		if n.unknownAttr != "" {
			r.refuse(tunnel, fmt.Sprintf("its entry for %v has %s", n.HardwareAddr, n.unknownAttr))
			continue
		}
		if n.IP == nil {
			continue
		}
		peer := NextHop{Device: a.Index, MAC: n.HardwareAddr, Encap: &Encap{
			Local: nlmsg.ToAddr(tunnel.SrcAddr), Remote: nlmsg.ToAddr(n.IP), MAC: a.HardwareAddr,
			VNI: tunnel.VxlanId, Port: tunnel.Port, DSCP: tunnel.TOS >> 2, TTL: ttl, DontFragment: dontFragment,
			RouteDevice: routeDevice,
			BoundAddr:   tunnel.SrcAddr, // the device that it is bound to is for what it floods, and for a VRF
		}}
		if r.resolveUnderlay(&peer) {
			peer.MTU = min(a.MTU, peer.MTU-udpTunnelOverhead, r.leastRouteMTU(a.Index, nil, a.MTU))
			peers = append(peers, peer)
		}
	}
	return peers, nil
}

// isFlood tells whether a forwarding entry with a MAC says where to flood: then the MAC is all zeros.
func isFlood(mac net.HardwareAddr) bool { return mac.String() == "00:00:00:00:00:00" }

const udpTunnelOverhead = 50 // IPv4, UDP, VXLAN or Geneve, and Ethernet
