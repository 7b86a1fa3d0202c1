package topology

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// rtnlQuerier queries single devices and routes repeatedly.
type rtnlQuerier struct{ *nlmsg.Querier }

func openRtnlQuerier() (*rtnlQuerier, error) {
	q, err := nlmsg.OpenQuerier(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	return &rtnlQuerier{q}, nil
}

// startDevice begins a request for a device.
func (q *rtnlQuerier) startDevice(index int) {
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Index = int32(index)
	q.Start(unix.RTM_GETLINK, 0, header.Serialize())
	q.AddUint32(unix.IFLA_EXT_MASK, withoutCounters)
}

// podEnd reads a device in another namespace, by nsid; zero: it is gone, or its namespace is.
func (q *rtnlQuerier) podEnd(space, index int) (end PodEnd, err error) {
	q.startDevice(index)
	q.AddUint32(unix.IFLA_TARGET_NETNSID, uint32(space))
	attrs, err := q.RoundTrip(unix.SizeofIfInfomsg)
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) {
		return end, nil
	}
	if err != nil {
		return end, err
	}
	return newPodEnd(space, index, attrs), nil
}

// xdpProgram returns the ID of the XDP program of a device of the querier's namespace; 0 means none.
func (q *rtnlQuerier) xdpProgram(index int) (uint32, error) {
	q.startDevice(index)
	attrs, err := q.RoundTrip(unix.SizeofIfInfomsg)
	if err != nil {
		return 0, err
	}
	return nlmsg.NativeUint32(nlmsg.FindIn(attrs, unix.IFLA_XDP, unix.IFLA_XDP_PROG_ID)), nil
}

// withoutCounters is RTEXT_FILTER_SKIP_STATS.
const withoutCounters = 1 << 3

// chosenRoute is the route that the kernel chooses for an address.
type chosenRoute struct {
	device  int        // ifindex
	gateway netip.Addr // invalid: none
	source  netip.Addr // the preferred one; invalid: as asked for
	mtu     int        // configured or learned, bytes; 0: none
}

// routeOf returns the route of a tunnel's outer packets.
func (q *rtnlQuerier) routeOf(e *Encap) (chosen chosenRoute, err error) {
	q.requestRoute(0, e)
	attrs, err := q.RoundTrip(unix.SizeofRtMsg)
	if err != nil {
		return chosen, err
	}
	for kind, value := range nlmsg.EachAttr(attrs) {
		switch kind {
		case unix.RTA_OIF:
			chosen.device = int(int32(nlmsg.NativeUint32(value)))
		case unix.RTA_GATEWAY:
			chosen.gateway, _ = netip.AddrFromSlice(value)
		case unix.RTA_PREFSRC:
			chosen.source, _ = netip.AddrFromSlice(value)
		case unix.RTA_METRICS:
			chosen.mtu = int(nlmsg.NativeUint32(nlmsg.FindIn(value, unix.RTAX_MTU)))
		}
	}
	return chosen, nil
}

// hasOneHop tells whether the route of a tunnel's outer packets is one with a single next hop, so that it
// leads the same way whatever else they have in them.
func (q *rtnlQuerier) hasOneHop(e *Encap) (bool, error) {
	q.requestRoute(unix.RTM_F_FIB_MATCH, e)
	attrs, err := q.RoundTrip(unix.SizeofRtMsg)
	if err != nil {
		return false, err
	}
	return nlmsg.FindIn(attrs, unix.RTA_OIF) != nil, nil // else RTA_MULTIPATH
}

// requestRoute begins a request for the route of a tunnel's outer packets, which the kernel looks up by all
// that it is given here. Their source port is left out, which is not the same for all.
func (q *rtnlQuerier) requestRoute(flags uint32, e *Encap) {
	m := nl.RtMsg{}
	m.Family, m.Dst_len, m.Flags = unix.AF_INET, uint8(e.Remote.BitLen()), flags
	if e.Remote.Is6() {
		m.Family = unix.AF_INET6
	}
	from := nlmsg.ToAddr(e.BoundAddr)
	hasSource := from.IsValid() && !from.IsUnspecified() && from.BitLen() == e.Remote.BitLen()
	if hasSource {
		m.Src_len = uint8(from.BitLen())
	}
	q.Start(unix.RTM_GETROUTE, 0, m.Serialize())
	q.Add(unix.RTA_DST, e.Remote.AsSlice())
	if hasSource {
		q.Add(unix.RTA_SRC, from.AsSlice())
	}
	if e.RouteDevice != 0 {
		q.AddUint32(unix.RTA_OIF, uint32(e.RouteDevice))
	}
	if !e.IPIP {
		q.Add(unix.RTA_IP_PROTO, []byte{unix.IPPROTO_UDP})
		q.Add(unix.RTA_DPORT, binary.BigEndian.AppendUint16(nil, uint16(e.Port)))
	}
}
