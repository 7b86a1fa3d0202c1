package topology

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/mdlayher/netlink"
	"github.com/venturi-net/venturi/internal/nlmsg"
	vnl "github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// rtnlFilter decides which rtnetlink messages about devices, addresses, neighbours and routes are
// changes. The kernel repeats many messages without a change: when a bridge timer expires, a
// neighbour is confirmed, or an address lease is renewed. So the filter keeps the last state of
// each object.
type rtnlFilter struct {
	neighbours map[string]string
	devices    map[string]string // attributes that rules and bridges match
	addresses  map[string]string
	owns       ProgramOwner
}

func newRtnlFilter(owns ProgramOwner) *rtnlFilter {
	return &rtnlFilter{map[string]string{}, map[string]string{}, map[string]string{}, owns}
}

// resync reloads the state from the kernel. Objects that cannot be read count as unknown.
func (n *rtnlFilter) resync() {
	clear(n.neighbours)
	clear(n.devices)
	clear(n.addresses)
	for _, family := range []int{unix.AF_INET, familyBridge} {
		all, _ := dumpNeighbours(family)
		for _, e := range all {
			n.neighbours[neighbourKey(&e)] = neighbourFingerprint(&e)
		}
	}
	for _, family := range []int{unix.AF_UNSPEC, familyBridge} {
		// Requests VLANs of a bridge in the same form as in notifications.
		vlans := nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(bridgeVLANs))
		for _, m := range dumpRoute(unix.RTM_GETLINK, nl.NewIfInfomsg(family), vlans) {
			if d, ok := readDevice(m); ok {
				n.devices[d.key] = d.fingerprint
			}
		}
	}
	for _, m := range dumpRoute(unix.RTM_GETADDR, nl.NewIfAddrmsg(unix.AF_INET)) {
		if name, is, ok := readAddress(m); ok {
			n.addresses[name] = is
		}
	}
}

const bridgeVLANs = 1 << 2 // RTEXT_FILTER_BRVLAN_COMPRESSED

// dumpRoute dumps what a message requests, and skips what it cannot parse.
func dumpRoute(message int, data ...nl.NetlinkRequestData) [][]byte {
	found, _ := nlmsg.Dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(message, unix.NLM_F_DUMP)
		for _, d := range data {
			req.AddData(d)
		}
		return req.Execute(unix.NETLINK_ROUTE, 0)
	})
	return found
}

func (n *rtnlFilter) event(m netlink.Message) Event {
	if m.Header.Type == unix.RTM_NEWNEIGH || m.Header.Type == unix.RTM_DELNEIGH {
		return n.neighbourEvent(m)
	}
	return Event{Changes: n.changes(m)}
}

func (n *rtnlFilter) changes(m netlink.Message) Changes {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return n.deviceChanges(m)
	case unix.RTM_NEWQDISC:
		if isEmptyClsact(m.Data) {
			return 0
		}
		return TopologyChanged
	case unix.RTM_NEWTFILTER:
		if pin, foreign := ownFilter(m.Data, n.owns); !foreign && pin != "" {
			return 0
		}
		return TopologyChanged
	case unix.RTM_DELQDISC, unix.RTM_DELTFILTER, unix.RTM_DELCHAIN: // a new chain is empty
		return TopologyChanged
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return n.addressChanges(m)
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE,
		unix.RTM_NEWRULE, unix.RTM_DELRULE, unix.RTM_NEWNETCONF, unix.RTM_DELNETCONF,
		unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP, unix.RTM_NEWNEXTHOPBUCKET, unix.RTM_DELNEXTHOPBUCKET:
		return RulesChanged | TopologyChanged
	}
	return 0
}

// isEmptyClsact reports whether a message announces a new clsact without filters, which does
// nothing to packets. Only one of a block that devices share has filters from the start. The fast
// path itself adds one to each of many devices.
func isEmptyClsact(message []byte) bool {
	if len(message) < nl.SizeofTcMsg {
		return false
	}
	attrs, err := nl.ParseRouteAttrAsMap(message[nl.SizeofTcMsg:])
	_, ingress := attrs[unix.TCA_INGRESS_BLOCK]
	_, egress := attrs[unix.TCA_EGRESS_BLOCK]
	return err == nil && !ingress && !egress && unix.ByteSliceToString(attrs[nl.TCA_KIND].Value) == "clsact"
}

// neighbourKey identifies a neighbour or forwarding entry. A MAC is behind one bridge port or one
// tunnel destination at a time, and no notification names the previous one. The all-zeros MAC is
// the exception: it has many destinations.
func neighbourKey(e *neighbourEntry) string {
	switch {
	case e.Family == familyBridge && e.MasterIndex != 0:
		return fmt.Sprint(e.Family, "bridge", e.MasterIndex, e.Vlan, e.HardwareAddr)
	case e.Family == familyBridge && e.HardwareAddr.String() == zeroMAC:
		return fmt.Sprint(e.Family, e.LinkIndex, e.Vlan, e.HardwareAddr, e.IP)
	case e.Family == familyBridge:
		return fmt.Sprint(e.Family, e.LinkIndex, e.Vlan, e.HardwareAddr)
	}
	return fmt.Sprint(e.Family, e.LinkIndex, e.IP)
}

// neighbourFingerprint returns the fingerprint of an entry. It is empty for a neighbour that the
// kernel does not send to.
func neighbourFingerprint(e *neighbourEntry) string {
	switch {
	case e.Family == familyBridge:
		return fmt.Sprint(e.LinkIndex, e.IP, e.State&vnl.NUD_PERMANENT, e.stableRest)
	case isUsableState(e.State):
		return fmt.Sprint(e.HardwareAddr, e.stableRest)
	}
	return ""
}

// dedup stores the latest fingerprint of an object, or its removal, and returns the previous one.
// again means that nothing changed.
func dedup[K comparable](all map[K]string, name K, is string, gone bool) (was string, again bool) {
	was, known := all[name]
	if gone {
		delete(all, name)
		return was, false
	}
	all[name] = is
	return was, known && was == is
}

// neighbourEvent classifies a message about a neighbour. If an IPv4 neighbour in use changes or
// disappears, its packets go elsewhere or nowhere, though no route changed. A new neighbour affects
// no existing flow.
func (n *rtnlFilter) neighbourEvent(m netlink.Message) Event {
	e, err := readNeighbour(m.Data)
	if err != nil {
		return Event{Changes: RulesChanged | TopologyChanged}
	}
	was, again := dedup(n.neighbours, neighbourKey(&e), neighbourFingerprint(&e), m.Header.Type == unix.RTM_DELNEIGH)
	if again {
		return Event{}
	}
	if e.Family == unix.AF_INET && was != "" {
		return Event{RulesChanged | TopologyChanged, Neighbour{e.LinkIndex, nlmsg.ToAddr(e.IP)}}
	}
	return Event{Changes: TopologyChanged}
}

// deviceChanges classifies a message about a device. Attributes of a bridge or its ports decide
// what they forward; rules match devices by name, group and master. Any other new device affects no
// existing flow.
func (n *rtnlFilter) deviceChanges(m netlink.Message) Changes {
	d, ok := readDevice(m.Data)
	if !ok {
		return RulesChanged | TopologyChanged
	}
	was, known := n.devices[d.key]
	same := known && was == d.fingerprint
	if m.Header.Type == unix.RTM_DELLINK {
		delete(n.devices, d.key)
		known, same = false, false
	} else {
		n.devices[d.key] = d.fingerprint
	}
	switch {
	case same && d.port: // the fingerprint has all that the message says
		return 0
	case known && !same || !known && d.bridged:
		return RulesChanged | TopologyChanged
	}
	return TopologyChanged
}

// deviceFingerprint is the fingerprint of a device.
type deviceFingerprint struct {
	key         string // bridge ports have a key of their own
	fingerprint string
	bridged     bool // is a bridge or a bridge port
	port        bool // the message is of a bridge, about a port
}

// Volatile attributes of a bridge and of a port: timers, and counts of learned entries.
var (
	volatileBridgeAttrs = map[uint16]bool{unix.IFLA_BR_HELLO_TIMER: true, unix.IFLA_BR_TCN_TIMER: true,
		unix.IFLA_BR_TOPOLOGY_CHANGE_TIMER: true, unix.IFLA_BR_GC_TIMER: true, unix.IFLA_BR_FDB_N_LEARNED: true}
	volatilePortAttrs = map[uint16]bool{unix.IFLA_BRPORT_MESSAGE_AGE_TIMER: true, unix.IFLA_BRPORT_FORWARD_DELAY_TIMER: true,
		unix.IFLA_BRPORT_HOLD_TIMER: true, unix.IFLA_BRPORT_MCAST_EHT_HOSTS_CNT: true, unix.IFLA_BRPORT_MCAST_N_GROUPS: true}
)

// separateAttrs are compared separately, and so are the device flags.
var separateAttrs = map[uint16]bool{unix.IFLA_PROTINFO: true, unix.IFLA_OPERSTATE: true}

// listenerFlags are device flags that a packet capture sets; packets are not affected.
const listenerFlags = unix.IFF_PROMISC | unix.IFF_ALLMULTI

// readDevice parses a message about a device, or about a bridge port.
func readDevice(message []byte) (d deviceFingerprint, ok bool) {
	if len(message) < unix.SizeofIfInfomsg {
		return d, false
	}
	attrs, err := nl.ParseRouteAttr(message[unix.SizeofIfInfomsg:])
	if err != nil {
		return d, false
	}
	family, index := message[0], message[4:8]
	flags := binary.NativeEndian.Uint32(message[8:]) &^ listenerFlags
	d.key = fmt.Sprint(family, index)
	data := nlmsg.ByNumber(attrs)
	if family == familyBridge {
		d.bridged, d.port = true, true
		d.fingerprint = fmt.Sprint(flags, stableAttrs(attrs, separateAttrs), stableNestedAttrs(data[unix.IFLA_PROTINFO], volatilePortAttrs))
		return d, true
	}
	d.fingerprint = fmt.Sprint(data[unix.IFLA_IFNAME], data[unix.IFLA_GROUP], data[unix.IFLA_MASTER])
	info, err := nl.ParseRouteAttr(data[unix.IFLA_LINKINFO])
	if err != nil {
		return d, false
	}
	kind := nlmsg.ByNumber(info)
	if kind.Text(nl.IFLA_INFO_KIND) == "bridge" {
		d.bridged, d.port = true, true
		d.fingerprint += fmt.Sprint(flags, data[unix.IFLA_MTU], data[unix.IFLA_ADDRESS], stableNestedAttrs(kind[nl.IFLA_INFO_DATA], volatileBridgeAttrs))
	}
	if kind.Text(nl.IFLA_INFO_SLAVE_KIND) == "bridge" {
		d.bridged, d.port = true, true
		d.fingerprint += stableNestedAttrs(kind[nl.IFLA_INFO_SLAVE_DATA], volatilePortAttrs)
	}
	return d, true
}

// stableNestedAttrs returns a nested attribute without its volatile members. It returns the bytes
// unchanged if they cannot be parsed.
func stableNestedAttrs(value []byte, passes map[uint16]bool) string {
	attrs, err := nl.ParseRouteAttr(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return stableAttrs(attrs, passes)
}

func stableAttrs(attrs nlmsg.Attrs, passes map[uint16]bool) string {
	var is strings.Builder
	for _, a := range attrs {
		if number := nlmsg.Number(a.Attr.Type); !passes[number] {
			fmt.Fprint(&is, number, a.Value)
		}
	}
	return is.String()
}

// addressChanges classifies a message about an address. A new lease time is no change.
func (n *rtnlFilter) addressChanges(m netlink.Message) Changes {
	name, is, ok := readAddress(m.Data)
	if !ok {
		return RulesChanged | TopologyChanged
	}
	if _, again := dedup(n.addresses, name, is, m.Header.Type == unix.RTM_DELADDR); again {
		return 0
	}
	return RulesChanged | TopologyChanged
}

// volatileAddressAttrs are the lease times of an address.
var volatileAddressAttrs = map[uint16]bool{unix.IFA_CACHEINFO: true}

func readAddress(message []byte) (name, is string, ok bool) {
	if len(message) < unix.SizeofIfAddrmsg {
		return "", "", false
	}
	attrs, err := nl.ParseRouteAttr(message[unix.SizeofIfAddrmsg:])
	if err != nil {
		return "", "", false
	}
	data := nlmsg.ByNumber(attrs)
	family, bits, index := message[0], message[1], message[4:8]
	name = fmt.Sprint(family, bits, index, data[unix.IFA_LOCAL], data[unix.IFA_ADDRESS])
	return name, fmt.Sprint(message[2:4], stableAttrs(attrs, volatileAddressAttrs)), true
}
