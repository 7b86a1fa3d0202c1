package host

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Ways is how the network of a namespace brings packets to its pods, and to other
// machines, as far as the kernel's tables tell.
type Ways struct {
	Pods    []PodWay
	Peers   []PeerWay
	Devices map[int]DeviceWay // by index: those that packets of pods and peers pass
	Refused []Refusal
	// WithXDP are the own ends of pods that are left out for the XDP programs there.
	WithXDP []PodWay
	// Fickle names a route or policy rule that goes by more than what all packets of
	// an established flow share, so that the next one may go elsewhere; empty: there
	// is none.
	Fickle string
	// Unplaced are neighbours that may be pods, and of which their bridge does not know
	// where they are.
	Unplaced []BridgeNeighbour
}

// Refusal is a way that packets could take, and that is left out.
type Refusal struct {
	Device string `json:"device"`
	Why    string `json:"why"`
}

// PodWay leads to a pod of this machine.
type PodWay struct {
	Device  int    // index of the machine's end of the pod's link
	On      int    // index of the device whose neighbour the pod is: that, or the bridge whose port it is
	MTU     int    // of the largest IP packet that reaches it whole, bytes
	Own     OwnEnd // zero: it makes no difference, or is gone
	Addr    netip.Addr
	MAC     net.HardwareAddr // of the pod
	Gateway net.HardwareAddr // that the pod sees packets come from
}

// PeerWay leads to a next hop outside.
type PeerWay struct {
	Device   int              // index of the device that the network sends by: a tunnel, or the wire
	MAC      net.HardwareAddr // of the next hop, as that device addresses it
	Size     int              // of the largest IP packet that goes there whole, bytes
	RouteMTU int              // that the route to the tunnel's other end has, or has learned, bytes; 0: none
	Wire     int              // index of the device on the wire
	From, To net.HardwareAddr // on the wire
	Hop      netip.Addr       // of the next hop on the wire
	Tunnel   *TunnelWay       // nil: there is none
}

// TunnelWay is what a tunnel puts around packets.
type TunnelWay struct {
	Local, Remote netip.Addr
	MAC           net.HardwareAddr // of the tunnel's device
	VNI, Port     int
	DSCP, TTL     int
	DontFragment  bool
	Below         int    // index of the device that it is bound to; 0: none
	Source        net.IP // that it is bound to; nil: none
}

// TunnelsAndPods names the devices that [ReadWays] looks at.
type TunnelsAndPods struct {
	Wire    string
	Tunnels []string // vxlan devices; none: the wire itself leads to the peers
	Pods    []string // the machine's ends of pods' links
}

// ReadWays reads the ways of the calling thread's namespace. A device that is not
// there, and a pod or a peer of which too little is known, are left out. The error
// wraps [ErrInterrupted] if that is all that is wrong.
func ReadWays(of TunnelsAndPods) (Ways, error) {
	h, err := netlink.NewHandle(netlinkRoute)
	if err != nil {
		return Ways{}, fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	r := waysReader{h: h, byIndex: map[int]netlink.Link{}, byName: map[string]netlink.Link{}}
	if err := r.read(); err != nil {
		return Ways{}, err
	}
	var w Ways
	for _, name := range of.Pods {
		if pod, ok := r.pod(name); ok {
			pod.MTU = r.whole(pod)
			w.Pods = append(w.Pods, pod)
		}
	}
	if len(of.Tunnels) == 0 {
		w.Peers = r.onWire(of.Wire)
	}
	for _, name := range of.Tunnels {
		peers, err := r.behind(name)
		if err != nil {
			return Ways{}, err
		}
		w.Peers = append(w.Peers, peers...)
	}
	devices, wires := map[int]bool{}, map[int]bool{}
	for _, p := range w.Pods {
		devices[p.Device], devices[p.On] = true, true
	}
	for _, p := range w.Peers {
		devices[p.Device], devices[p.Wire], wires[p.Wire] = true, true, true
	}
	w.Devices, err = r.deviceWays(devices, wires)
	w.Refused, w.WithXDP, w.Fickle, w.Unplaced = r.refused, r.withXDP, r.fickle, r.unplaced(of.Pods)
	return w, err
}

// waysReader holds the tables, read once.
type waysReader struct {
	h       *netlink.Handle
	byIndex map[int]netlink.Link
	byName  map[string]netlink.Link
	arp     []neighbourEntry // IPv4
	fdb     []neighbourEntry
	routes  []netlink.Route // of the main table
	every   []netlink.Route // of all tables
	refused []Refusal
	withXDP []PodWay       // as of [Ways]
	fickle  string         // as of [Ways]
	unsure  map[int]string // why packets by a device, of its index, may go otherwise than those before
}

func (r *waysReader) refuse(l netlink.Link, why string) {
	r.refused = append(r.refused, Refusal{l.Attrs().Name, why})
}

func (r *waysReader) read() error {
	links, err := dump(r.h.LinkList)
	if err != nil {
		return fmt.Errorf("list devices: %w", err)
	}
	for _, l := range links {
		r.byIndex[l.Attrs().Index], r.byName[l.Attrs().Name] = l, l
	}
	if r.arp, err = dumpNeighbours(unix.AF_INET); err != nil {
		return fmt.Errorf("list neighbours: %w", err)
	}
	if r.fdb, err = dumpNeighbours(familyBridge); err != nil {
		return fmt.Errorf("list forwarding entries: %w", err)
	}
	return r.readRoutes()
}

const familyBridge = 7 // AF_BRIDGE

// ErrInterrupted is wrapped by errors of those who list the kernel's tables when one
// of these changed while it was listed, however often that was tried.
var ErrInterrupted error = netlink.ErrDumpInterrupted

// dump asks again when the kernel's table changed while it was listed.
func dump[T any](list func() ([]T, error)) (found []T, err error) {
	for range dumpTries {
		if found, err = list(); !errors.Is(err, ErrInterrupted) {
			break
		}
	}
	return found, err
}

// pod finds the one address that is behind a pod's link: of a port of a bridge,
// what the bridge's neighbour is whose MAC lives there; of any other, what is
// routed to it.
func (r *waysReader) pod(name string) (PodWay, bool) {
	l, ok := r.byName[name]
	if !ok || l.Type() != "veth" && l.Type() != kindNetkit || l.Attrs().NetNsID < 0 || l.Attrs().Flags&net.FlagUp == 0 {
		return PodWay{}, false // its other end must be in another namespace
	}
	a := l.Attrs()
	var own netlink.Link
	if l.Type() != kindNetkit {
		own = ownEnd(nil, a.NetNsID, a.ParentIndex)
	}
	if why := unfit(l, own); why != "" {
		if r.refuse(l, why); own != nil {
			r.withXDP = append(r.withXDP, PodWay{Own: OwnEnd{a.NetNsID, a.ParentIndex, own.Attrs().MTU, true}})
		}
		return PodWay{}, false
	}
	if bare(l) {
		return r.behindBare(l)
	}
	on, gateway := a.Index, a.HardwareAddr
	there := func(_ net.HardwareAddr, addr netip.Addr) bool { return r.routed(addr, a.Index) }
	if bridge, ok := r.byIndex[a.MasterIndex]; ok {
		b := bridge.Attrs()
		on, gateway = b.Index, b.HardwareAddr
		if why := unfitBridge(bridge); why != "" {
			r.refuse(l, why)
			return PodWay{}, false
		}
		there = func(mac net.HardwareAddr, _ netip.Addr) bool { return r.lives(mac, a.Index) }
	}
	if why := cmp.Or(r.unsure[a.Index], r.unsure[on]); why != "" {
		r.refuse(l, why)
		return PodWay{}, false
	}
	pod, found := PodWay{Device: a.Index, On: on, Gateway: gateway}, 0
	if own != nil {
		pod.Own = OwnEnd{a.NetNsID, a.ParentIndex, own.Attrs().MTU, false}
	}
	for _, n := range r.arp {
		addr := addrOf(n.IP)
		if n.LinkIndex == on && len(n.HardwareAddr) == macLen && usable(n.State) && there(n.HardwareAddr, addr) {
			if why := cmp.Or(n.unproven, r.unprovenAt(n.HardwareAddr, a.Index)); why != "" {
				r.refuse(l, "its pod has "+why)
				return PodWay{}, false
			}
			pod.Addr, pod.MAC = addr, n.HardwareAddr
			found++
		}
	}
	return pod, found == 1
}

const macLen = 6

// usable tells whether the kernel sends to a neighbour in such a state.
func usable(state int) bool { return state&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) == 0 }

// lives tells whether a bridge has a MAC behind a port.
func (r *waysReader) lives(mac net.HardwareAddr, port int) bool {
	for _, n := range r.fdb {
		if n.LinkIndex == port && n.MasterIndex != 0 && n.HardwareAddr.String() == mac.String() {
			return true
		}
	}
	return false
}

// unprovenAt says what a bridge has of a MAC behind a port of which it is not known what
// it does; "": nothing.
func (r *waysReader) unprovenAt(mac net.HardwareAddr, port int) (why string) {
	for _, n := range r.fdb {
		if n.LinkIndex == port && n.MasterIndex != 0 && bytes.Equal(n.HardwareAddr, mac) {
			why = cmp.Or(why, n.unproven)
		}
	}
	return why
}

// unfitBridge says why packets of its ports must not be carried past a device; "": they
// may.
func unfitBridge(l netlink.Link) string {
	b, ok := l.(*netlink.Bridge)
	switch {
	case !ok:
		return fmt.Sprintf("is a port of %s, which is no bridge but of kind %s", l.Attrs().Name, l.Type())
	case b.VlanFiltering != nil && *b.VlanFiltering:
		return b.Name + " filters VLANs"
	}
	return ""
}

// routed tells whether the most special route to an address leads to a device,
// without a next hop.
func (r *waysReader) routed(addr netip.Addr, device int) bool {
	for _, route := range r.routes {
		if route.LinkIndex == device && route.Gw == nil && prefixOf(route.Dst) == netip.PrefixFrom(addr, addr.BitLen()) {
			return true
		}
	}
	return false
}

// onWire gives the neighbours on a wire.
func (r *waysReader) onWire(name string) (peers []PeerWay) {
	l, ok := r.byName[name]
	if !ok || l.Attrs().Flags&net.FlagUp == 0 {
		return nil
	}
	a := l.Attrs()
	if why := r.unsure[a.Index]; why != "" {
		r.refuse(l, why)
		return nil
	}
	for _, n := range r.arp {
		if n.LinkIndex == a.Index && len(n.HardwareAddr) == macLen && usable(n.State) {
			if n.unproven != "" {
				r.refuse(l, fmt.Sprintf("its neighbour %v has %s", n.IP, n.unproven))
				continue
			}
			size := r.routesMTU(a.Index, n.IP, a.MTU)
			peers = append(peers, PeerWay{Device: a.Index, MAC: n.HardwareAddr, Size: size, Wire: a.Index, From: a.HardwareAddr, To: n.HardwareAddr, Hop: addrOf(n.IP)})
		}
	}
	return peers
}

// behind gives what is behind a tunnel's device.
func (r *waysReader) behind(name string) (peers []PeerWay, err error) {
	l, ok := r.byName[name]
	tunnel, isTunnel := l.(*netlink.Vxlan)
	if !ok || !isTunnel || l.Attrs().Flags&net.FlagUp == 0 {
		return nil, nil
	}
	a := tunnel.Attrs()
	whole, fickle, err := outer(a.Index)
	switch {
	case errors.Is(err, unix.ENODEV):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read tunnel %s: %w", name, err)
	case fickle != "":
		r.refuse(l, "its outer headers are not the same for all packets ("+fickle+")")
		return nil, nil
	}
	if why := r.unsure[a.Index]; why != "" {
		r.refuse(l, why)
		return nil, nil
	}
	ttl := tunnel.TTL
	if ttl == 0 {
		if ttl, err = defaultTTL(); err != nil {
			return nil, err
		}
	}
	for _, n := range r.fdb {
		if n.LinkIndex != a.Index || len(n.HardwareAddr) != macLen || n.MasterIndex != 0 || n.HardwareAddr.String() == noMAC {
			continue
		}
		if n.unproven != "" {
			r.refuse(l, fmt.Sprintf("its entry for %v has %s", n.HardwareAddr, n.unproven))
			continue
		}
		if n.IP == nil {
			continue
		}
		peer := PeerWay{Device: a.Index, MAC: n.HardwareAddr, Tunnel: &TunnelWay{
			Local: addrOf(tunnel.SrcAddr), Remote: addrOf(n.IP), MAC: a.HardwareAddr,
			VNI: tunnel.VxlanId, Port: tunnel.Port, DSCP: tunnel.TOS >> 2, TTL: ttl, DontFragment: whole,
			Below: tunnel.VtepDevIndex, Source: tunnel.SrcAddr,
		}}
		if r.reach(&peer, tunnel) {
			peer.Size = min(a.MTU, peer.Size-vxlanOverhead, r.routesMTU(a.Index, nil, a.MTU))
			peers = append(peers, peer)
		}
	}
	return peers, nil
}

const (
	noMAC         = "00:00:00:00:00:00" // of a forwarding entry: to all
	vxlanOverhead = 50                  // IPv4, UDP, VXLAN and Ethernet
)
