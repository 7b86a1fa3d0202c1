package netcfg

import (
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// IPIP is what an ipip device is made of. It has no other end: where a packet
// goes to is the next hop that its route has.
type IPIP struct {
	Name   string
	MTU    int        // bytes
	Local  netip.Addr // outer source; packets to it are the device's
	Device string     // that the outer packets leave by
}

// AddIPIP makes an ipip device and brings it up. As on the device tunl0 that the
// kernel itself makes, the outer header has the inner one's time to live, and
// may not be cut only if the inner one may not.
func (n *Namespace) AddIPIP(t IPIP) error {
	under, err := n.link(t.Device)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = t.Name, t.MTU
	err = n.h.LinkAdd(&netlink.Iptun{
		LinkAttrs: attrs, Local: t.Local.AsSlice(), Link: uint32(under.Attrs().Index), Proto: unix.IPPROTO_IPIP,
	})
	if err != nil {
		return n.Wrap("add ipip "+t.Name, err)
	}
	return n.Up(t.Name)
}
