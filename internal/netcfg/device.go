package netcfg

import (
	"net"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Device is a network device of any kind. All that is not here is left to the kernel's
// defaults.
type Device struct {
	Kind  string // as in "ip link add type KIND"
	Name  string
	MAC   net.HardwareAddr // nil: the kernel makes one up
	MTU   int              // bytes
	Attrs []Attr           // of this kind: see the kernel's if_link.h and if_tunnel.h
}

// Attr is an attribute of a kind of device, as netlink carries it.
type Attr struct {
	Type  int
	Value []byte
}

// AddDevice makes a device and brings it up.
func (n *Namespace) AddDevice(d Device) error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(d.Name)))
	if d.MAC != nil {
		req.AddData(nl.NewRtAttr(unix.IFLA_ADDRESS, d.MAC))
	}
	req.AddData(nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(d.MTU))))
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated(d.Kind))
	data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
	for _, a := range d.Attrs {
		data.AddRtAttr(a.Type, a.Value)
	}
	req.AddData(info)
	err := n.Do(func() error {
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
	if err != nil {
		return n.Wrap("add "+d.Kind+" "+d.Name, err)
	}
	return n.Up(d.Name)
}
