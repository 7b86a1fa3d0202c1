package netcfg

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// VXLAN is what a vxlan device is made of. All that is not here is left to the
// kernel's defaults.
type VXLAN struct {
	Name   string
	MAC    net.HardwareAddr
	MTU    int
	VNI    int
	Port   int        // UDP, destination
	Local  netip.Addr // outer source
	Device string     // that the outer packets leave by
	NoCsum bool       // leave the checksum of the outer UDP header out
}

// AddVXLAN makes a vxlan device that learns nothing, and brings it up. The library's
// type for it cannot say that the outer checksum is to be left out: it says yes, or
// nothing, which the kernel takes for a yes.
func (n *Namespace) AddVXLAN(v VXLAN) error {
	under, err := n.link(v.Device)
	if err != nil {
		return err
	}
	attrs := []Attr{
		{nl.IFLA_VXLAN_ID, nl.Uint32Attr(uint32(v.VNI))},
		{nl.IFLA_VXLAN_LINK, nl.Uint32Attr(uint32(under.Attrs().Index))},
		{nl.IFLA_VXLAN_LOCAL, v.Local.AsSlice()},
		{nl.IFLA_VXLAN_PORT, binary.BigEndian.AppendUint16(nil, uint16(v.Port))},
		{nl.IFLA_VXLAN_LEARNING, nl.Uint8Attr(0)},
	}
	if v.NoCsum {
		attrs = append(attrs, Attr{nl.IFLA_VXLAN_UDP_CSUM, nl.Uint8Attr(0)})
	}
	return n.AddDevice(Device{Kind: "vxlan", Name: v.Name, MAC: v.MAC, MTU: v.MTU, Attrs: attrs})
}

// AddFDB tells a vxlan device, for good, behind which outer address a MAC is.
func (n *Namespace) AddFDB(device string, mac net.HardwareAddr, behind netip.Addr) error {
	return n.addFDB(device, netlink.Neigh{State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF, IP: behind.AsSlice(), HardwareAddr: mac})
}

// AddPortFDB tells a bridge, for good, behind which of its ports a MAC is.
func (n *Namespace) AddPortFDB(port string, mac net.HardwareAddr) error {
	return n.addFDB(port, netlink.Neigh{State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER, HardwareAddr: mac})
}

func (n *Namespace) addFDB(device string, entry netlink.Neigh) error {
	link, err := n.link(device)
	if err != nil {
		return err
	}
	entry.LinkIndex, entry.Family = link.Attrs().Index, unix.AF_BRIDGE
	return n.Wrap("add FDB entry "+entry.HardwareAddr.String(), n.h.NeighSet(&entry))
}

// Geneve is what a geneve device is made of.
type Geneve struct {
	Name string
	MAC  net.HardwareAddr
	MTU  int // bytes
	Port int // UDP, destination; a namespace can have one device without a remote for each
	// Remote is the other end. Zero: what sends by the device says it, a switch or a route's [Encap], and
	// everything that comes by the port is the device's, whatever its VNI.
	Remote netip.Addr
	VNI    int  // of a device with a remote
	Csum   bool // of the same: compute the checksum of the outer UDP header
}

// AddGeneve makes a geneve device, and brings it up.
func (n *Namespace) AddGeneve(g Geneve) error {
	if g.Remote.IsValid() {
		return n.addGeneveTo(g)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = g.Name, g.MAC, g.MTU
	if err := n.h.LinkAdd(&netlink.Geneve{LinkAttrs: attrs, FlowBased: true, Dport: uint16(g.Port)}); err != nil {
		return n.Wrap("add geneve "+g.Name, err)
	}
	return n.Up(g.Name)
}

// addGeneveTo makes a device with a remote.
func (n *Namespace) addGeneveTo(g Geneve) error {
	attrs := []Attr{
		{nl.IFLA_GENEVE_ID, nl.Uint32Attr(uint32(g.VNI))},
		{nl.IFLA_GENEVE_REMOTE, g.Remote.AsSlice()},
		{nl.IFLA_GENEVE_PORT, binary.BigEndian.AppendUint16(nil, uint16(g.Port))},
	}
	if g.Csum {
		attrs = append(attrs, Attr{nl.IFLA_GENEVE_UDP_CSUM, nl.Uint8Attr(1)})
	}
	return n.AddDevice(Device{Kind: "geneve", Name: g.Name, MAC: g.MAC, MTU: g.MTU, Attrs: attrs})
}
