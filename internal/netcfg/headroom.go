package netcfg

import (
	"net"

	"github.com/vishvananda/netlink"
)

// highMAC is as high as a MAC of one's own can be: a bridge that has none of its own
// takes the lowest of its ports.
var highMAC = net.HardwareAddr{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff}

// AddHeadroom makes what is sent into a bridge come with room in front for the
// headers of a tunnel, so that whoever puts them there need not copy the packet
// into a larger buffer. There is no setting for that: a bridge asks of its ports
// what the neediest of them needs, and the only devices that need something are
// tunnels. So it makes one of that name and puts it on the bridge, but never brings
// it up: it has no socket and no peer, and the port is disabled. When it is
// deleted, the bridge asks no more.
func (n *Namespace) AddHeadroom(name, bridge string) error {
	master, err := n.link(bridge)
	if err != nil {
		return err
	}
	return n.Wrap("add "+name+" to "+bridge, n.h.LinkAdd(&netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: highMAC, MTU: master.Attrs().MTU, MasterIndex: master.Attrs().Index},
		VxlanId:   master.Attrs().Index, // no other of these has it
		Port:      discard,
	}))
}

const discard = 9 // the port of the discard service: no tunnel's
