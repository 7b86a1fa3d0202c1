package netcfg

import (
	"context"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// VethEnd is one end of a veth pair.
type VethEnd struct {
	In   *Namespace
	Name string
	MAC  net.HardwareAddr
}

// AddVeth makes a veth pair, each end born in its own namespace, and brings
// both up. mtu in bytes.
func AddVeth(a, b VethEnd, mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = a.Name, a.MAC, mtu
	veth := netlink.NewVeth(attrs)
	veth.PeerName = b.Name
	veth.PeerHardwareAddr = b.MAC
	veth.PeerMTU = uint32(mtu)
	veth.PeerNamespace = netlink.NsFd(int(b.In.file.Fd()))
	if err := a.In.h.LinkAdd(veth); err != nil {
		return a.In.Wrap("add veth "+a.Name, err)
	}
	if err := a.In.Up(a.Name); err != nil {
		return err
	}
	return b.In.Up(b.Name)
}

// AddBridge makes a bridge and brings it up.
func (n *Namespace) AddBridge(name string, mac net.HardwareAddr, mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = name, mac, mtu
	if err := n.h.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return n.Wrap("add bridge "+name, err)
	}
	return n.Up(name)
}

func (n *Namespace) link(name string) (netlink.Link, error) {
	link, err := n.h.LinkByName(name)
	return link, n.Wrap("find "+name, err)
}

// Up brings a device up.
func (n *Namespace) Up(device string) error {
	link, err := n.link(device)
	if err != nil {
		return err
	}
	return n.Wrap("bring up "+device, n.h.LinkSetUp(link))
}

// AwaitCarrier waits until a device has a carrier, which a card that was down finds anew. Error:
// ctx has ended before.
func (n *Namespace) AwaitCarrier(ctx context.Context, device string) error {
	for {
		link, err := n.link(device)
		if err != nil {
			return err
		}
		if link.Attrs().RawFlags&unix.IFF_LOWER_UP != 0 {
			return nil
		}
		if host.Sleep(ctx, readyPoll) != nil {
			return n.Wrap("wait for the carrier of "+device, ctx.Err())
		}
	}
}

// SetMTU sets the MTU of a device, bytes.
func (n *Namespace) SetMTU(device string, mtu int) error {
	link, err := n.link(device)
	if err != nil {
		return err
	}
	return n.Wrap("set MTU of "+device, n.h.LinkSetMTU(link, mtu))
}

// SetGSOMaxSize says how much of a stream the device takes at once, bytes.
func (n *Namespace) SetGSOMaxSize(device string, bytes int) error {
	link, err := n.link(device)
	if err != nil {
		return err
	}
	return n.Wrap("set gso_max_size of "+device, n.h.LinkSetGSOMaxSize(link, bytes))
}

// Enslave makes a device a port of a bridge. With hairpin the bridge may send
// a frame back out of the port that it came in by.
func (n *Namespace) Enslave(device, bridge string, hairpin bool) error {
	port, err := n.link(device)
	if err != nil {
		return err
	}
	master, err := n.link(bridge)
	if err != nil {
		return err
	}
	if err := n.h.LinkSetMaster(port, master); err != nil {
		return n.Wrap("put "+device+" on "+bridge, err)
	}
	if !hairpin {
		return nil
	}
	return n.Wrap("set hairpin of "+device, n.h.LinkSetHairpin(port, true))
}

// Isolate keeps frames that came in by a bridge's port from leaving by another one that
// is isolated too.
func (n *Namespace) Isolate(port string) error {
	link, err := n.link(port)
	if err != nil {
		return err
	}
	return n.Wrap("isolate "+port, n.h.LinkSetIsolated(link, true))
}

// AddAddr gives a device an address.
func (n *Namespace) AddAddr(device string, prefix netip.Prefix) error {
	link, err := n.link(device)
	if err != nil {
		return err
	}
	addr := &netlink.Addr{IPNet: ipNet(prefix)}
	return n.Wrap("add address "+prefix.String()+" to "+device, n.h.AddrAdd(link, addr))
}

// Route is one route. Without Via the destination is on the link itself.
type Route struct {
	Dst       netip.Prefix
	Via       netip.Addr
	Device    string
	OnLink    bool   // Via is reachable by Device although no route says so
	Encap     *Encap // what a tunnel's device is to do with the packets; nil: nothing
	Blackhole bool   // drop; the rest but Dst is not used
}

// AddRoute adds a route to the main table.
func (n *Namespace) AddRoute(r Route) error {
	route := &netlink.Route{Dst: ipNet(r.Dst)}
	if r.Blackhole {
		route.Type = unix.RTN_BLACKHOLE
		return n.Wrap("add blackhole route "+r.Dst.String(), n.h.RouteAdd(route))
	}
	link, err := n.link(r.Device)
	if err != nil {
		return err
	}
	route.LinkIndex = link.Attrs().Index
	if r.Via.IsValid() {
		route.Gw = r.Via.AsSlice()
	} else {
		route.Scope = netlink.SCOPE_LINK
	}
	if r.Encap != nil {
		route.Encap = *r.Encap
	}
	if r.OnLink {
		route.Flags = int(netlink.FLAG_ONLINK)
	}
	return n.Wrap("add route "+r.Dst.String(), n.h.RouteAdd(route))
}

// AddNeighbour makes a permanent neighbour entry: its address is never asked
// for on the link.
func (n *Namespace) AddNeighbour(device string, addr netip.Addr, mac net.HardwareAddr) error {
	link, err := n.link(device)
	if err != nil {
		return err
	}
	return n.Wrap("add neighbour "+addr.String(), n.h.NeighSet(&netlink.Neigh{
		LinkIndex:    link.Attrs().Index,
		State:        netlink.NUD_PERMANENT,
		Type:         unix.RTN_UNICAST,
		IP:           addr.AsSlice(),
		HardwareAddr: mac,
	}))
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
