package topology

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// routeMessage is what decides whether a route treats all packets of a flow alike.
type routeMessage struct {
	to      netip.Prefix
	table   uint32
	reason  string // why it may not; "" means that it does
	byRA    bool   // a router advertisement has made it
	devices []int  // ifindexes that it leads to
	object  uint32 // id of its next hop object; 0 means none
}

const (
	rtDestinationBits = 1 // offsets in struct rtmsg
	rtSourceBits      = 2
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

func readRouteMessage(message []byte, family audit.Family) (m routeMessage, err error) {
	if len(message) < unix.SizeofRtMsg {
		return m, fmt.Errorf("message of %d bytes is too short", len(message))
	}
	attrs, err := nl.ParseRouteAttr(message[unix.SizeofRtMsg:])
	if err != nil {
		return m, err
	}
	data := nlmsg.ByNumber(attrs)
	m.table = cmp.Or(nlmsg.NativeUint32(data[unix.RTA_TABLE]), uint32(message[rtTable]))
	m.object = nlmsg.NativeUint32(data[rtNexthop])
	to, _ := netip.AddrFromSlice(data[unix.RTA_DST])
	if !to.IsValid() {
		to = family.Unspecified()
	}
	m.byRA = message[rtProtocol] == unix.RTPROT_RA
	m.to = netip.PrefixFrom(to, int(message[rtDestinationBits]))
	if device := nlmsg.NativeUint32(data[unix.RTA_OIF]); device != 0 {
		m.devices = append(m.devices, int(device))
	}
	m.devices = append(m.devices, devicesOfHops(data[unix.RTA_MULTIPATH])...)
	metrics, err := nl.ParseRouteAttr(data[unix.RTA_METRICS])
	if err != nil {
		return m, err
	}
	switch kind := message[rtType]; {
	case kind == 0 || kind > latestRoute:
		m.reason = fmt.Sprintf("type %d", kind)
	case message[rtSourceBits] != 0:
		m.reason = "a source prefix (from)"
	case !isLearned(message) && expires(data[unix.RTA_CACHEINFO]):
		m.reason = "a lifetime (expires), whose end the kernel announces late"
	default:
		m.reason = cmp.Or(provenRoutes.FirstUnknownNamed(attrs, routeReasons), provenMetrics.FirstUnknown(metrics))
	}
	return m, nil
}

// isLearned tells whether a route is only what the kernel has learned of another one: a path MTU, which is
// polled, or a redirect, which a router does not take.
func isLearned(message []byte) bool {
	return binary.NativeEndian.Uint32(message[rtFlags:])&unix.RTM_F_CLONED != 0
}

// expires tells by its struct rta_cacheinfo whether a route ends by itself. Of IPv6, those from router
// advertisements do.
func expires(cache []byte) bool {
	const at = 8 // rta_expires
	return len(cache) >= at+4 && binary.NativeEndian.Uint32(cache[at:]) != 0
}

// devicesOfHops returns the devices of a multipath route: each next hop begins with a struct
// rtnexthop.
func devicesOfHops(list []byte) (devices []int) {
	for len(list) >= unix.SizeofRtNexthop {
		size := int(binary.NativeEndian.Uint16(list))
		devices = append(devices, int(int32(binary.NativeEndian.Uint32(list[4:]))))
		if size = (size + 3) &^ 3; size < unix.SizeofRtNexthop || size > len(list) {
			break
		}
		list = list[size:]
	}
	return devices
}

// nexthopMessage is the same for a next hop object.
type nexthopMessage struct {
	id, device uint32
	members    []uint32
	reason     string
}

func readNexthop(message []byte, family audit.Family) (m nexthopMessage, err error) {
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

// auditRoutes finds the devices whose routes may send the next packet of a flow elsewhere, or do more to it.
func (r *reader) auditRoutes() error {
	perPacket := r.perPacket
	err := dumpFamily(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, &nl.RtMsg{RtMsg: unix.RtMsg{Family: r.family.Number()}}, func() func(message []byte) error {
		r.uncertainDevices, r.advertised, r.perPacket = map[int]string{}, false, perPacket
		var nexthops map[uint32]nexthopMessage
		return func(message []byte) error {
			m, err := readRouteMessage(message, r.family)
			if err != nil {
				return fmt.Errorf("parse route: %w", err)
			}
			if m.object != 0 && nexthops == nil {
				if nexthops, err = readNexthops(r.family); err != nil {
					return err
				}
			}
			if m.object != 0 {
				m.applyNexthop(nexthops)
			}
			r.advertised = r.advertised || m.byRA
			r.markUncertain(m)
			return nil
		}
	})
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	return nil
}

// applyNexthop applies the audit of a next hop object to a route that uses it.
func (m *routeMessage) applyNexthop(nexthops map[uint32]nexthopMessage) {
	object, ok := nexthops[m.object]
	if !ok { // a notification follows, by which this is read again
		object.reason = "a next hop object that was made or removed meanwhile"
	}
	m.reason = cmp.Or(object.reason, m.reason)
	for _, id := range append(object.members, object.id) {
		if device := nexthops[id].device; device != 0 {
			m.devices = append(m.devices, int(device))
		}
		m.reason = cmp.Or(m.reason, nexthops[id].reason)
	}
}

// markUncertain refuses the devices that a route leads to, or all devices if it names none.
func (r *reader) markUncertain(m routeMessage) {
	if m.reason == "" {
		return
	}
	why := fmt.Sprintf("the route to %v in table %d has %s", m.to, m.table, m.reason)
	for _, device := range m.devices {
		r.uncertainDevices[device] = why
	}
	if len(m.devices) == 0 {
		r.perPacket = why
	}
}

func readNexthops(family audit.Family) (map[uint32]nexthopMessage, error) {
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
