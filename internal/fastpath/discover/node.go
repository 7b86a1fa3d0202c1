package discover

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/venturi-net/venturi/internal/verr"
)

// node is the network of a namespace, read once.
type node struct {
	links      []netlink.Link // by index
	byIndex    map[int]netlink.Link
	routes     []route
	family     topology.Family // of routes and of what follows
	neighbours []netlink.Neigh
	ipv6       []netlink.Neigh // the same of IPv6, if the family is another
	fdb        []netlink.Neigh
	forwards   bool
}

// route is one next hop of a route.
type route struct {
	dst    netip.Prefix
	device int
	via    netip.Addr // zero: the destination is on the link
}

func (r route) isDefault() bool { return r.dst.Bits() == 0 }

func readNode(family topology.Family) (*node, error) {
	n := &node{family: family, byIndex: map[int]netlink.Link{}}
	if err := n.read(); err != nil {
		return nil, refuseTooMany(err)
	}
	return n, nil
}

func (n *node) read() (err error) {
	if n.links, err = topology.ListLinks(); err != nil {
		return err
	}
	slices.SortFunc(n.links, func(a, b netlink.Link) int { return cmp.Compare(a.Attrs().Index, b.Attrs().Index) })
	for _, l := range n.links {
		n.byIndex[l.Attrs().Index] = l
	}
	if n.neighbours, err = topology.ListNeighbours(n.family); err != nil {
		return err
	}
	if n.family == topology.IPv4 {
		if n.ipv6, err = topology.ListNeighbours(topology.IPv6); err != nil {
			return err
		}
	}
	if n.fdb, err = topology.ListFDB(); err != nil {
		return err
	}
	if err := n.readRoutes(); err != nil {
		return err
	}
	n.forwards, err = forwards(host.Reader{}, n.family)
	return err
}

// refuseTooMany says how to go on where the kernel has too much of something to plan by all of it.
func refuseTooMany(err error) error {
	var why topology.TooManyError
	if errors.As(err, &why) {
		return verr.New(verr.Failed, "cannot plan the fast path", why.Error(), `remove those that nobody needs; "ip -s link", "ip neigh" and "ip route show table all" list them`)
	}
	return err
}

// forwards tells whether a node forwards packets. One that has no IPv6 does not have its sysctls.
func forwards(r host.Reader, family topology.Family) (bool, error) {
	value, err := r.Sysctl(forwardingSysctls[family])
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return value != "0", err
}

// forwardingSysctls say whether a node forwards packets.
var forwardingSysctls = map[topology.Family]string{topology.IPv4: "net.ipv4.ip_forward", topology.IPv6: "net.ipv6.conf.all.forwarding"}

// readRoutes reads the routes to elsewhere of all tables.
func (n *node) readRoutes() error {
	err := topology.EachRoute(n.family, func() func(topology.Route) error {
		n.routes = nil
		return n.addRoute
	})
	if err != nil {
		return err
	}
	slices.SortFunc(n.routes, func(a, b route) int {
		return cmp.Or(a.dst.Addr().Compare(b.dst.Addr()),
			cmp.Compare(a.dst.Bits(), b.dst.Bits()), cmp.Compare(a.device, b.device))
	})
	return nil
}

func (n *node) addRoute(r topology.Route) error {
	if r.Type == unix.RTN_UNICAST && r.Table != unix.RT_TABLE_LOCAL && !r.Learned {
		for _, hop := range r.Hops {
			n.routes = append(n.routes, route{r.To, hop.Device, hop.Gateway})
		}
	}
	return nil
}

func (n *node) name(index int) string {
	if l, ok := n.byIndex[index]; ok {
		return l.Attrs().Name
	}
	return fmt.Sprint("device ", index)
}

// ports are the devices that belong to another.
func (n *node) ports(master int) (ports []netlink.Link) {
	for _, l := range n.links {
		if l.Attrs().MasterIndex == master {
			ports = append(ports, l)
		}
	}
	return ports
}

// leadsInside tells whether a device leads to pods alone: a bridge all of whose ports do, or a
// link to a single address.
func (n *node) leadsInside(l netlink.Link) bool {
	if l.Type() == "bridge" {
		ports := n.ports(l.Attrs().Index)
		return len(ports) > 0 && !slices.ContainsFunc(ports, func(p netlink.Link) bool { return !topology.IsPodLink(p) })
	}
	return topology.IsPodLink(l) && (l.Attrs().MasterIndex != 0 || n.hasHostRoute(l.Attrs().Index))
}

// hasHostRoute tells whether a single address is routed to a device.
func (n *node) hasHostRoute(device int) bool {
	return slices.ContainsFunc(n.routes, func(r route) bool { return r.device == device && r.dst.IsSingleIP() && !r.via.IsValid() })
}

// obstacle says what of a node as a whole keeps everything slow; "": nothing.
func (n *node) obstacle() string {
	for _, l := range n.links {
		for _, cni := range programmedCNIs {
			if slices.ContainsFunc(cni.devices, func(prefix string) bool { return strings.HasPrefix(l.Attrs().Name, prefix) }) {
				return fmt.Sprintf("%s forwards the packets of pods by BPF programs of its own (device %s)", cni.name, l.Attrs().Name)
			}
		}
	}
	if !n.forwards {
		return fmt.Sprintf("this node does not forward %s packets (%s is 0, or missing)", n.family, forwardingSysctls[n.family])
	}
	return ""
}

// programmedCNIs are networks of pods that are BPF programs themselves, by their devices.
var programmedCNIs = []struct {
	name    string
	devices []string // prefixes of names
}{
	{"Cilium", []string{"cilium_"}},
	{"Calico's eBPF mode", []string{"bpfin.cali", "bpfout.cali"}},
}

// encapsulations are the kinds of devices that put headers around packets, or leave the kernel.
var encapsulations = map[string]string{
	"ipip": "IPIP to one host", "sit": "IPv6 in IPv4", "gre": "GRE", "gretap": "GRE", "ip6gre": "GRE over IPv6", "ip6gretap": "GRE over IPv6",
	"ip6tnl": "a tunnel over IPv6", "geneve": "Geneve", "vxlan": "VXLAN", "wireguard": "WireGuard", "vti": "IPsec", "vti6": "IPsec", "xfrm": "IPsec",
	"tuntap": "a program's tunnel", "ppp": "PPP", "bareudp": "UDP", "gtp": "GTP",
}

// leftAlone names the devices that packets of pods may take, and that the fast path does not
// follow.
func (n *node) leftAlone(p *Plan) []topology.Refusal {
	left := []topology.Refusal{}
	wires := n.wireDevices(p)
	for _, l := range n.links {
		if why := n.whyLeft(l, p, wires[l.Attrs().Index]); why != "" {
			left = append(left, topology.Refusal{Device: l.Attrs().Name, Reason: why})
		}
	}
	return left
}

// whyLeft says why a device is left alone; "": it is not, or leads nowhere. onWire tells that it is the
// wire, or below it.
func (n *node) whyLeft(l netlink.Link, p *Plan, onWire bool) string {
	a := l.Attrs()
	if a.Name == p.Wire && p.Tunnel != "" {
		return n.besideTunnel(a.Index, p)
	}
	if a.Name == p.Wire || slices.Contains(p.outDevices(), a.Name) || a.Flags&net.FlagLoopback != 0 {
		return ""
	}
	master, enslaved := n.byIndex[a.MasterIndex]
	switch {
	case l.Type() == "openvswitch":
		return "is an Open vSwitch bridge, whose flows the fast path does not read"
	case !onWire && topology.IsPodLink(l) && n.isPod(l):
		return "" // it is among the pods
	case enslaved && (l.Type() == "vxlan" || l.Type() == "geneve"):
		return fmt.Sprintf("is a port of %s: the fast path does not support Ethernet overlays, in which pods use each other's MAC addresses", master.Attrs().Name)
	case !onWire && enslaved && slices.ContainsFunc(n.ports(a.MasterIndex), topology.IsPodLink):
		return fmt.Sprintf("is a port of %s and a %s device: traffic through it stays on the slow path", master.Attrs().Name, l.Type())
	}
	var beyond, all []string
	for _, r := range n.routes {
		if r.device != a.Index {
			continue
		}
		all = append(all, r.dst.String())
		if r.via.IsValid() {
			beyond = append(beyond, r.dst.String())
		}
	}
	encapsulation := encapsulations[l.Type()]
	geneve, isGeneve := l.(*netlink.Geneve)
	vxlan, isVXLAN := l.(*netlink.Vxlan)
	switch {
	case len(beyond) > 0 && isGeneve:
		return whyGeneveLeft(geneve, p, beyond)
	case len(beyond) > 0 && l.Type() == "ipip":
		return unusedRoutes(beyond, " by IPIP", "one wire or tunnel", cmp.Or(p.Tunnel, p.Wire))
	case len(all) > 0 && encapsulation != "" && !isVXLAN:
		return fmt.Sprintf("leads to %s by %s, which the fast path does not support", list(all), encapsulation)
	case len(beyond) == 0:
		return ""
	case isVXLAN && n.family == topology.IPv6 && !n.isOverIPv6(vxlan):
		return fmt.Sprintf("leads to %s by VXLAN over IPv4: the fast path carries IPv6 without encapsulation, or in VXLAN over IPv6", list(beyond))
	case isVXLAN:
		return unusedRoutes(beyond, "", "one wire or tunnel", cmp.Or(p.Tunnel, p.Wire))
	case n.leadsInside(l):
		return fmt.Sprintf("leads to %s through a pod; the fast path carries to a pod only packets for the pod itself", list(beyond))
	case p.Wire == "":
		return fmt.Sprintf("leads to %s, and is not a device that the fast path can use", list(beyond))
	}
	return unusedRoutes(beyond, "", "one wire", p.Wire)
}

// list names some, and how many more there are.
func list(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// wireDevices are the wire of a plan and the devices below it, by index.
func (n *node) wireDevices(p *Plan) map[int]bool {
	wires := map[int]bool{}
	for _, l := range host.LowerDevices(n.links, p.Wire) {
		wires[l.Attrs().Index] = true
	}
	return wires
}

// layers describes what a device stands on; "": nothing.
func (n *node) layers(device string) string {
	i := slices.IndexFunc(n.links, func(l netlink.Link) bool { return l.Attrs().Name == device })
	if i < 0 {
		return ""
	}
	var lower, layers []string
	for _, l := range topology.LowerLinks(slices.Values(n.links), n.links[i]) {
		lower = append(lower, l.Attrs().Name)
	}
	switch on := strings.Join(lower, " and "); l := n.links[i].(type) {
	case *netlink.Vlan:
		tag := fmt.Sprintf("VLAN %d", l.VlanId)
		if l.VlanProtocol == netlink.VLAN_PROTOCOL_8021AD {
			tag = "802.1ad " + tag
		}
		layers = append(layers, tag+" on "+cmp.Or(on, "a device of another network namespace"))
	case *netlink.Bond:
		layers = append(layers, l.Mode.String()+" bond of "+cmp.Or(on, "no device"))
	}
	for _, name := range lower {
		if more := n.layers(name); more != "" {
			layers = append(layers, more)
		}
	}
	return strings.Join(layers, ", ")
}

// isPod tells whether a link to another namespace is to be listed as one to a pod: it is a port,
// or a single address is routed to it, or nothing is. A link with a subnet is one between routers.
func (n *node) isPod(l netlink.Link) bool {
	a := l.Attrs()
	if a.MasterIndex != 0 || n.hasHostRoute(a.Index) {
		return true
	}
	return !slices.ContainsFunc(n.routes, func(r route) bool { return r.device == a.Index })
}

// pods judges each device that leads to a pod.
func (n *node) pods(p *Plan, found topology.Topology) []PlannedPod {
	pods := []PlannedPod{}
	wires := n.wireDevices(p)
	for _, l := range n.links {
		a := l.Attrs()
		if !topology.IsPodLink(l) || wires[a.Index] || !n.isPod(l) {
			continue
		}
		pod := PlannedPod{Device: a.Name, Outlook: Carried}
		if i := slices.IndexFunc(found.Pods, func(known topology.LocalPod) bool { return known.Device == a.Index }); i >= 0 {
			pod.Addr = found.Pods[i].Addr.String()
		} else {
			pod.Outlook, pod.Reason = n.whyNoPod(l, found.Refusals)
		}
		pods = append(pods, pod)
	}
	return pods
}

// whyNoPod says why the pod behind a device is not carried.
func (n *node) whyNoPod(l netlink.Link, refused []topology.Refusal) (Outlook, string) {
	a := l.Attrs()
	if why := cmp.Or(refusals(a.Name, refused), fastpath.BeyondTable(a.Index)); why != "" {
		return Slow, why
	}
	addrs, ipv6 := n.addrsBehind(l, n.neighbours), n.addrsBehind(l, n.ipv6)
	switch {
	case !topology.IsUp(l):
		return Slow, "is down"
	case len(addrs) > 1:
		return Slow, fmt.Sprintf("leads to several addresses (%s), and the fast path supports pods with one", list(addrs))
	case a.MasterIndex == 0 && !n.hasHostRoute(a.Index):
		return Slow, "it is not a bridge port, and no route to a single address leads to it"
	case len(addrs) == 0 && len(ipv6) > 0:
		return Waiting, fmt.Sprintf("only IPv6 addresses of it are known (%s), and their traffic stays slow", list(ipv6))
	}
	return Waiting, "its addresses are not known yet; its first packet makes them known"
}

// addrsBehind are the addresses of neighbours that are known to be behind a device, in order: the
// kernel lists neighbours by a hash that differs from boot to boot. Those that are valid on one
// link only do not count.
func (n *node) addrsBehind(l netlink.Link, neighbours []netlink.Neigh) (addrs []string) {
	a := l.Attrs()
	on := cmp.Or(a.MasterIndex, a.Index)
	for _, e := range neighbours {
		if e.LinkIndex == on && len(e.HardwareAddr) > 0 && !e.IP.IsLinkLocalUnicast() && !e.IP.IsMulticast() && (on == a.Index || n.isBehind(e.HardwareAddr, a.Index)) {
			addrs = append(addrs, nlmsg.ToAddr(e.IP).String())
		}
	}
	slices.Sort(addrs)
	return addrs
}

// isBehind tells whether a bridge has a MAC behind a port.
func (n *node) isBehind(mac net.HardwareAddr, port int) bool {
	return slices.ContainsFunc(n.fdb, func(e netlink.Neigh) bool { return e.LinkIndex == port && bytes.Equal(e.HardwareAddr, mac) })
}
