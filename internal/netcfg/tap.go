package netcfg

import (
	"net"

	"github.com/vishvananda/netlink"
)

// Tap is a network device whose other end is a process: the card of a virtual
// machine.
type Tap struct {
	Name   string
	MAC    net.HardwareAddr // of the device itself, not of the card; nil: drawn by the kernel
	MTU    int              // bytes
	Queues int              // pairs that the process may open; 0: one
}

// AddTap makes a tap that stays there while nobody has opened it, and brings it
// up. Who opens it must be root, and ask for several queues only if it has them.
// Beside each packet stands what is left to do of it, so that checksums and
// cutting can be left to whoever comes last.
func (n *Namespace) AddTap(t Tap) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = t.Name
	flags := netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR | netlink.TUNTAP_TUN_EXCL
	if t.Queues > 1 {
		flags |= netlink.TUNTAP_MULTI_QUEUE
	}
	tap := &netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP, Flags: flags, Queues: 1}
	// A tap belongs to the namespace of the thread that asks for it.
	err := n.Do(func() error { return n.h.LinkAdd(tap) })
	for _, queue := range tap.Fds {
		queue.Close()
	}
	if err != nil {
		return n.Wrap("add tap "+t.Name, err)
	}
	link, err := n.link(t.Name)
	if err != nil {
		return err
	}
	if t.MAC != nil {
		if err := n.h.LinkSetHardwareAddr(link, t.MAC); err != nil {
			return n.Wrap("set address of "+t.Name, err)
		}
	}
	if err := n.SetMTU(t.Name, t.MTU); err != nil {
		return err
	}
	return n.Up(t.Name)
}
