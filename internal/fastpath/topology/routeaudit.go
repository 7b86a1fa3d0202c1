package topology

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Route is a route, as far as it matters here.
type Route struct {
	To      netip.Prefix
	Table   uint32
	Type    byte // such as [unix.RTN_UNICAST]
	TOS     byte
	MTU     int        // bytes; 0: none
	Hops    []RouteHop // where it leads to; none: nowhere, or to a next hop object that the kernel does not resolve
	Learned bool       // the kernel has learned it of another one: a path MTU, which is polled, or a redirect, which a router does not take

	reason  string // why it may not treat all packets of a flow alike; "" means that it does
	byRA    bool   // a router advertisement has made it
	devices []int  // ifindexes that it leads to
	object  uint32 // id of its next hop object; 0 means none
}

// RouteHop is a next hop of a route.
type RouteHop struct {
	Device  int        // ifindex
	Gateway netip.Addr // invalid: the destination is on the link
}

const (
	rtDestinationBits = 1 // offsets in struct rtmsg
	rtSourceBits      = 2
	rtTOS             = 3
	rtTable           = 4
	rtProtocol        = 5
	rtType            = 7
	rtFlags           = 8
	rtNexthop         = 30 // RTA_NH_ID
	latestRoute       = unix.RTN_THROW

	nexthopSize   = 8 // struct nhmsg
	nexthopMember = 8 // struct nexthop_grp
)

// Reasons to refuse routes and next hops.
var (
	routeReasons   = map[uint16]string{unix.RTA_MULTIPATH: "several next hops", unix.RTA_ENCAP: "an encapsulation", unix.RTA_ENCAP_TYPE: "an encapsulation", unix.RTA_VIA: "a next hop of another family"}
	nexthopReasons = map[uint16]string{unix.NHA_GROUP: "several next hops", unix.NHA_ENCAP: "an encapsulation", unix.NHA_ENCAP_TYPE: "an encapsulation"}
)

// readRoute reads the kernel's message about a route. It keeps to what is used: no part that nobody knows makes the rest
// unreadable.
func readRoute(message []byte, family Family) (r Route) {
	if len(message) < unix.SizeofRtMsg {
		r.reason = fmt.Sprintf("a message of %d bytes", len(message))
		return r
	}
	r.Table, r.Type, r.TOS = uint32(message[rtTable]), message[rtType], message[rtTOS]
	r.Learned, r.byRA = binary.NativeEndian.Uint32(message[rtFlags:])&unix.RTM_F_CLONED != 0, message[rtProtocol] == unix.RTPROT_RA
	attrs, err := nlmsg.AppendAttrs(nil, message[unix.SizeofRtMsg:])
	data := nlmsg.ByNumber(attrs)
	metrics, failed := nlmsg.AppendAttrs(nil, data[unix.RTA_METRICS])
	if err = cmp.Or(err, failed); err != nil {
		r.reason = fmt.Sprintf("a part that cannot be parsed (%v)", err)
		return r
	}
	r.Table = cmp.Or(nlmsg.NativeUint32(data[unix.RTA_TABLE]), r.Table)
	r.object = nlmsg.NativeUint32(data[rtNexthop])
	r.MTU = int(nlmsg.NativeUint32(nlmsg.Find(metrics, unix.RTAX_MTU)))
	to, _ := netip.AddrFromSlice(data[unix.RTA_DST])
	if !to.IsValid() {
		to = family.Unspecified()
	}
	r.To = netip.PrefixFrom(to, int(message[rtDestinationBits]))
	if device := nlmsg.NativeUint32(data[unix.RTA_OIF]); device != 0 {
		gateway, _ := netip.AddrFromSlice(data[unix.RTA_GATEWAY])
		r.Hops = append(r.Hops, RouteHop{int(device), gateway})
	}
	r.Hops = append(r.Hops, readHops(data[unix.RTA_MULTIPATH])...)
	for _, hop := range r.Hops {
		r.devices = append(r.devices, hop.Device)
	}
	switch {
	case r.Type == 0 || r.Type > latestRoute:
		r.reason = fmt.Sprintf("type %d", r.Type)
	case message[rtSourceBits] != 0:
		r.reason = "a source prefix (from)"
	case !r.Learned && expires(data[unix.RTA_CACHEINFO]):
		r.reason = "a lifetime (expires), whose end the kernel announces late"
	default:
		r.reason = cmp.Or(provenRoutes.FirstUnknownNamed(attrs, routeReasons), provenMetrics.FirstUnknown(metrics))
	}
	return r
}

// expires tells by its struct rta_cacheinfo whether a route ends by itself. Of IPv6, those from router
// advertisements do.
func expires(cache []byte) bool {
	const at = 8 // rta_expires
	return len(cache) >= at+4 && binary.NativeEndian.Uint32(cache[at:]) != 0
}

// readHops reads those of a multipath route: each begins with a struct rtnexthop.
func readHops(list []byte) (hops []RouteHop) {
	for len(list) >= unix.SizeofRtNexthop {
		size := min(max(int(binary.NativeEndian.Uint16(list)), unix.SizeofRtNexthop), len(list))
		hop := RouteHop{Device: int(int32(binary.NativeEndian.Uint32(list[4:])))}
		hop.Gateway, _ = netip.AddrFromSlice(nlmsg.FindIn(list[unix.SizeofRtNexthop:size], unix.RTA_GATEWAY))
		hops = append(hops, hop)
		list = list[min((size+3)&^3, len(list)):]
	}
	return hops
}

// nexthopMessage is the same for a next hop object.
type nexthopMessage struct {
	id, device uint32
	members    []uint32
	reason     string
}

func readNexthop(message []byte, family Family) (m nexthopMessage, err error) {
	if len(message) < nexthopSize {
		return m, fmt.Errorf("message of %d bytes is too short", len(message))
	}
	attrs, err := nl.ParseRouteAttr(message[nexthopSize:])
	if err != nil {
		return m, err
	}
	data := nlmsg.ByNumber(attrs)
	m.id, m.device = nlmsg.NativeUint32(data[unix.NHA_ID]), nlmsg.NativeUint32(data[unix.NHA_OIF])
	for list := data[unix.NHA_GROUP]; len(list) >= nexthopMember; list = list[nexthopMember:] {
		m.members = append(m.members, nlmsg.NativeUint32(list))
	}
	if m.reason = provenNexthop.FirstUnknownNamed(attrs, nexthopReasons); m.reason == "" && message[0] != family.Number() && data[unix.NHA_GATEWAY] != nil {
		m.reason = "a next hop of another family"
	}
	return m, nil
}

// auditRoute notes the devices of a route that may send the next packet of a flow elsewhere, or do more to it.
func (r *reader) auditRoute(route Route, nexthops map[uint32]nexthopMessage) {
	if route.object != 0 {
		route.applyNexthop(nexthops)
	}
	r.advertised = r.advertised || route.byRA
	r.markUncertain(route)
}

// applyNexthop applies the audit of a next hop object to a route that uses it.
func (r *Route) applyNexthop(nexthops map[uint32]nexthopMessage) {
	object, ok := nexthops[r.object]
	if !ok { // a notification follows, by which this is read again
		object.reason = "a next hop object that was made or removed meanwhile"
	}
	r.reason = cmp.Or(object.reason, r.reason)
	for _, id := range append(object.members, object.id) {
		if device := nexthops[id].device; device != 0 {
			r.devices = append(r.devices, int(device))
		}
		r.reason = cmp.Or(r.reason, nexthops[id].reason)
	}
}

// markUncertain refuses the devices that a route leads to, or all devices if it names none.
func (r *reader) markUncertain(route Route) {
	if route.reason == "" {
		return
	}
	why := fmt.Sprintf("the route to %v in table %d has %s", route.To, route.Table, route.reason)
	for _, device := range route.devices {
		r.uncertainDevices[device] = why
	}
	if len(route.devices) == 0 {
		r.perPacket = why
	}
}

func readNexthops(family Family) (map[uint32]nexthopMessage, error) {
	var all map[uint32]nexthopMessage
	err := dumpFamily(unix.RTM_GETNEXTHOP, unix.RTM_NEWNEXTHOP, &nexthopRequest{}, func() func(message []byte) error {
		all = map[uint32]nexthopMessage{}
		return func(message []byte) error {
			m, err := readNexthop(message, family)
			all[m.id] = m
			return err
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list next hops: %w", err)
	}
	return all, nil
}

// nexthopRequest is a struct nhmsg that requests all next hops.
type nexthopRequest struct{}

func (*nexthopRequest) Len() int { return nexthopSize }

func (*nexthopRequest) Serialize() []byte { return make([]byte, nexthopSize) }

// dumpFamily calls what begin returns with each of what a message requests. It begins anew when they have changed
// meanwhile. It keeps none: there may be a million. A kernel without this kind of object has none.
func dumpFamily(message int, answer uint16, data nl.NetlinkRequestData, begin func() (do func(message []byte) error)) error {
	_, err := nlmsg.Dump(func() (none [][]byte, err error) {
		do := begin()
		req := nl.NewNetlinkRequest(message, unix.NLM_F_DUMP)
		req.AddData(data)
		failed := req.ExecuteIter(unix.NETLINK_ROUTE, answer, func(message []byte) (more bool) {
			err = do(message)
			return err == nil
		})
		return none, cmp.Or(err, failed)
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		return nil
	}
	return err
}
