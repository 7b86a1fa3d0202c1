package topology

import (
	"cmp"
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// vxlan6Overhead is what VXLAN over IPv6 adds: IPv6, UDP, VXLAN, and Ethernet.
const vxlan6Overhead = 70

// vxlan6NextHops returns the next hops of IPv6 behind a vxlan device over IPv6. That device adds and removes
// the outer headers of carried packets as well: to the programs it is the wire. The network below it sees the
// same of carried packets as of others, so only what reads the marks that those lack matters there.
func (r *reader) vxlan6NextHops(tunnel *netlink.Vxlan) (peers []NextHop, err error) {
	a := tunnel.Attrs()
	_, fickle, err := readVXLANHeader(a.Index)
	switch {
	case errors.Is(err, unix.ENODEV):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read tunnel %s: %w", a.Name, err)
	case fickle != "":
		r.refuse(tunnel, "its outer headers are not the same for all packets ("+fickle+")")
		return nil, nil
	}
	if why := cmp.Or(r.masterReason(tunnel), r.uncertainDevices[a.Index], r.notRouter(a.Name)); why != "" {
		r.refuse(tunnel, why)
		return nil, nil
	}
	if len(a.HardwareAddr) != macLen {
		r.refuse(tunnel, "has no MAC address")
		return nil, nil
	}
	wire, ok := r.byIndex[tunnel.VtepDevIndex]
	if !ok {
		r.refuse(tunnel, "is not bound to a device (dev): what its packets pass could change with each route")
		return nil, nil
	}
	if wire.Attrs().Flags&net.FlagUp == 0 {
		return nil, nil
	}
	if why := r.unprovenWire(wire); why != "" {
		r.refuse(wire, why)
		return nil, nil
	}
	for _, n := range r.fdb {
		if n.LinkIndex != a.Index || len(n.HardwareAddr) != macLen || n.MasterIndex != 0 || n.IP == nil || n.HardwareAddr.String() == zeroMAC {
			continue
		}
		remote := nlmsg.ToAddr(n.IP)
		switch {
		case n.unknownAttr != "":
			r.refuse(tunnel, fmt.Sprintf("its entry for %v has %s", n.HardwareAddr, n.unknownAttr))
			continue
		case !isOf(remote, IPv6):
			r.refuse(tunnel, fmt.Sprintf("its peer %v is not reached over IPv6", remote))
			continue
		}
		route, err := r.querier.routeTo(remote, nlmsg.ToAddr(tunnel.SrcAddr), anyDevice) // as the tunnel's device does
		by, known := r.byIndex[route.device]
		if err != nil || !known {
			continue // there is no route at present
		}
		if by != wire {
			r.refuse(tunnel, fmt.Sprintf("its peer %v is reached by %s, and not by %s, which it is bound to", remote, by.Attrs().Name, wire.Attrs().Name))
			continue
		}
		least := min(wire.Attrs().MTU, r.confMTU(tunnel.VtepDevIndex, true))
		if route.mtu > 0 {
			least = min(least, route.mtu)
		}
		peers = append(peers, NextHop{
			Device: a.Index, MAC: n.HardwareAddr, WireDevice: a.Index, SrcMAC: a.HardwareAddr, DstMAC: n.HardwareAddr, Addr: remote, RouteMTU: route.mtu,
			MTU:   min(r.leastRouteMTU(a.Index, nil, a.MTU), r.confMTU(a.Index, true), least-vxlan6Overhead),
			Encap: &Encap{ByDevice: true, Remote: remote, Port: tunnel.Port, VNI: tunnel.VxlanId, BoundAddr: tunnel.SrcAddr},
		})
	}
	return peers, nil
}
