package topology

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/mdlayher/netlink"
	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// rtnlFilter decides which rtnetlink messages about devices, addresses, neighbours and routes are
// changes. The kernel repeats many messages without a change: when a bridge timer expires, a
// neighbour is confirmed, or an address lease is renewed. So the filter keeps the last state of
// each object.
type rtnlFilter struct {
	neighbours map[neighbourKey]string
	sizes      map[deviceKey]int // of those, by the device that they belong to
	gaps                         // in the neighbours that were loaded
	partial    bool              // nobody knows what is not in what was loaded
	devices    map[deviceKey]deviceState
	addresses  map[string]string
	owns       ProgramOwner
	family     Family
}

func newRtnlFilter(owns ProgramOwner, family Family) *rtnlFilter {
	return &rtnlFilter{neighbours: map[neighbourKey]string{}, sizes: map[deviceKey]int{}, devices: map[deviceKey]deviceState{}, addresses: map[string]string{}, owns: owns, family: family}
}

// resync reloads the state from the kernel. Objects that cannot be read count as unknown.
func (f *rtnlFilter) resync() { f.load(readTables(f.family), readFilterTables(f.family)) }

// filterTables are the tables that only the filter needs, besides [Tables].
type filterTables struct{ ports, addresses [][]byte }

// readFilterTables reads them in the calling thread's namespace.
func readFilterTables(family Family) filterTables {
	// Requests VLANs of a bridge in the same form as in notifications.
	vlans := nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(bridgeVLANs))
	return filterTables{
		ports:     dumpRoute(unix.RTM_GETLINK, nl.NewIfInfomsg(familyBridge), vlans),
		addresses: dumpRoute(unix.RTM_GETADDR, nl.NewIfAddrmsg(int(family.Number()))),
	}
}

// load loads the state that has been read.
func (f *rtnlFilter) load(tables *Tables, more filterTables) {
	clear(f.neighbours)
	clear(f.sizes)
	clear(f.devices)
	clear(f.addresses)
	f.gaps, f.partial = tables.gaps, tables.err != nil
	for _, entries := range [][]neighbourEntry{tables.arp, tables.fdb} {
		for i := range entries {
			f.dedupNeighbour(&entries[i], false)
		}
	}
	for _, links := range [][][]byte{tables.links, more.ports} {
		for _, m := range links {
			if d, ok := readDevice(m); ok {
				f.devices[d.key] = d.deviceState
			}
		}
	}
	for _, m := range more.addresses {
		if name, is, ok := readAddress(m); ok {
			f.addresses[name] = is
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

func (f *rtnlFilter) event(m netlink.Message) Event {
	if m.Header.Type == unix.RTM_NEWNEIGH || m.Header.Type == unix.RTM_DELNEIGH {
		return f.neighbourEvent(m)
	}
	return Event{Changes: f.changes(m), Cause: causes[m.Header.Type]}
}

func (f *rtnlFilter) changes(m netlink.Message) Changes {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return f.deviceChanges(m)
	case unix.RTM_NEWQDISC:
		if isEmptyClsact(m.Data) {
			return 0
		}
		return TopologyChanged
	case unix.RTM_NEWTFILTER:
		if pin, foreign := ownFilter(m.Data, f.owns); !foreign && pin != "" {
			return 0
		}
		return TopologyChanged
	case unix.RTM_DELQDISC, unix.RTM_DELTCLASS, unix.RTM_DELTFILTER, unix.RTM_DELCHAIN: // a new class or chain is empty
		return TopologyChanged
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return f.addressChanges(m)
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

// neighbourEvent classifies a message about a neighbour. If a neighbour in use changes or
// disappears, its packets go elsewhere or nowhere, though no route changed. A new neighbour affects
// no existing flow; one that is not known, where not all are, may not be new.
func (f *rtnlFilter) neighbourEvent(m netlink.Message) Event {
	e, err := readNeighbour(m.Data)
	if err != nil {
		return Event{Changes: RulesChanged | TopologyChanged, Cause: Neighbours}
	}
	if e.Family != familyBridge && e.Family != int(f.family.Number()) {
		return Event{} // of the other version of IP
	}
	_, known := f.neighbours[keyOfNeighbour(&e)]
	gone := m.Header.Type == unix.RTM_DELNEIGH
	was, again, crowded := f.dedupNeighbour(&e, gone)
	if again {
		return Event{}
	}
	changes := TopologyChanged
	isIP := e.Family == int(f.family.Number())
	if crowded && (isIP || was == "" || gone) { // that a forwarding entry has moved is news
		changes = 0
	}
	if isIP && (was != "" || !known && !crowded && (f.partial || f.reason(e.LinkIndex) != "")) {
		return Event{Changes: RulesChanged | changes, Cause: Neighbours, Neighbour: Neighbour{e.LinkIndex, nlmsg.ToAddr(e.IP)}}
	}
	return Event{Changes: changes}
}

// deviceChanges classifies a message about a device. Attributes of a bridge or its ports decide
// what they forward; rules match devices by name, group and master. Any other new device affects no
// existing flow.
func (f *rtnlFilter) deviceChanges(m netlink.Message) Changes {
	d, ok := readDevice(m.Data)
	if !ok {
		return RulesChanged | TopologyChanged | BridgeAsks
	}
	was, known := f.devices[d.key]
	unsure := f.partial && !known
	if m.Header.Type == unix.RTM_DELLINK {
		delete(f.devices, d.key)
		known = false
	} else {
		f.devices[d.key] = d.deviceState
	}
	switch {
	case known && was == d.deviceState && !d.event:
		return 0
	case known && was.forwarding != d.forwarding || !known && d.bridged || unsure:
		if audit.BridgeAsks(m.Data, f.family) {
			return RulesChanged | TopologyChanged | BridgeAsks
		}
		return RulesChanged | TopologyChanged
	}
	return TopologyChanged
}

// deviceKey identifies a device; bridge ports have a key of their own.
type deviceKey struct {
	family byte
	index  uint32
}

// deviceState holds the fingerprints of a device. A host may have thousands, so they are short.
type deviceState struct {
	forwarding fingerprint // of what rules and bridges go by
	rest       fingerprint // of everything else that lasts
}

type fingerprint = [sha256.Size]byte

// deviceMessage is what a message says about a device.
type deviceMessage struct {
	key deviceKey
	deviceState
	bridged bool // is a bridge or a bridge port
	event   bool // of something that the attributes do not tell, such as features
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

// volatileDeviceAttrs say nothing that lasts: counters, and what the flags say as well. Addresses
// and their settings, which are in IFLA_AF_SPEC, have notifications of their own; what decides about
// packets in IFLA_LINKINFO is compared separately.
var volatileDeviceAttrs = map[uint16]bool{unix.IFLA_STATS: true, unix.IFLA_STATS64: true, unix.IFLA_OPERSTATE: true, unix.IFLA_CARRIER: true,
	unix.IFLA_CARRIER_CHANGES: true, unix.IFLA_CARRIER_UP_COUNT: true, unix.IFLA_CARRIER_DOWN_COUNT: true, unix.IFLA_PROMISCUITY: true,
	unix.IFLA_ALLMULTI: true, unix.IFLA_AF_SPEC: true, unix.IFLA_EXT_MASK: true, unix.IFLA_LINKINFO: true}

// listenerFlags are device flags that a packet capture sets; packets are not affected.
const listenerFlags = unix.IFF_PROMISC | unix.IFF_ALLMULTI

// readDevice parses a message about a device, or about a bridge port.
func readDevice(message []byte) (d deviceMessage, ok bool) {
	if len(message) < unix.SizeofIfInfomsg {
		return d, false
	}
	var room, infoRoom nlmsg.Room
	attrs, err := nlmsg.AppendAttrs(room[:0], message[unix.SizeofIfInfomsg:])
	if err != nil {
		return d, false
	}
	family, index := message[0], message[4:8]
	flags := binary.NativeEndian.Uint32(message[8:]) &^ listenerFlags
	d.key = deviceKey{family, binary.NativeEndian.Uint32(index)}
	d.event = nlmsg.Find(attrs, unix.IFLA_EVENT) != nil
	all := binary.NativeEndian.AppendUint32(make([]byte, 0, 2*len(message)), flags)
	if family == familyBridge {
		d.bridged = true
		d.forwarding = sha256.Sum256(appendStableNested(appendStable(all, attrs, separateAttrs), nlmsg.Find(attrs, unix.IFLA_PROTINFO), volatilePortAttrs))
		return d, true
	}
	info, err := nlmsg.AppendAttrs(infoRoom[:0], nlmsg.Find(attrs, unix.IFLA_LINKINFO))
	if err != nil {
		return d, false
	}
	isBridge := unix.ByteSliceToString(nlmsg.Find(info, nl.IFLA_INFO_KIND)) == "bridge"
	isPort := unix.ByteSliceToString(nlmsg.Find(info, nl.IFLA_INFO_SLAVE_KIND)) == "bridge"
	d.bridged = isBridge || isPort
	forwarding := make([]byte, 0, len(message))
	for _, number := range []uint16{unix.IFLA_IFNAME, unix.IFLA_GROUP, unix.IFLA_MASTER} {
		forwarding = appendAttr(forwarding, number, nlmsg.Find(attrs, number))
	}
	separate := separateInfo
	if isBridge {
		separate = separateBridgeInfo
		forwarding = binary.NativeEndian.AppendUint32(forwarding, flags)
		for _, number := range []uint16{unix.IFLA_MTU, unix.IFLA_ADDRESS} {
			forwarding = appendAttr(forwarding, number, nlmsg.Find(attrs, number))
		}
		forwarding = appendStableNested(forwarding, nlmsg.Find(info, nl.IFLA_INFO_DATA), volatileBridgeAttrs)
	}
	if isPort {
		separate = separatePortInfo
		forwarding = appendStableNested(forwarding, nlmsg.Find(info, nl.IFLA_INFO_SLAVE_DATA), volatilePortAttrs)
	}
	d.forwarding = sha256.Sum256(forwarding)
	d.rest = sha256.Sum256(appendStable(appendStable(all, attrs, volatileDeviceAttrs), info, separate))
	return d, true
}

// separateInfo are the parts of IFLA_LINKINFO that say nothing that lasts, or are compared
// separately: of any device, of a bridge, and of a bridge's port, which is no bridge.
var (
	separateInfo       = map[uint16]bool{nl.IFLA_INFO_XSTATS: true}
	separateBridgeInfo = map[uint16]bool{nl.IFLA_INFO_XSTATS: true, nl.IFLA_INFO_DATA: true}
	separatePortInfo   = map[uint16]bool{nl.IFLA_INFO_XSTATS: true, nl.IFLA_INFO_SLAVE_DATA: true}
)

// appendStableNested appends a nested attribute without its volatile members, or the bytes unchanged
// if they cannot be parsed.
func appendStableNested(b, value []byte, volatile map[uint16]bool) []byte {
	var room nlmsg.Room
	attrs, err := nlmsg.AppendAttrs(room[:0], value)
	if err != nil {
		return append(b, value...)
	}
	return appendStable(b, attrs, volatile)
}

// appendStable appends the attributes that are not volatile.
func appendStable(b []byte, attrs nlmsg.Attrs, volatile map[uint16]bool) []byte {
	for _, a := range attrs {
		if number := nlmsg.Number(a.Attr.Type); !volatile[number] {
			b = appendAttr(b, number, a.Value)
		}
	}
	return b
}

// appendAttr appends an attribute, such that no other ones read alike.
func appendAttr(b []byte, number uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, number)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// addressChanges classifies a message about an address. A new lease time is no change.
func (f *rtnlFilter) addressChanges(m netlink.Message) Changes {
	name, is, ok := readAddress(m.Data)
	if !ok {
		return RulesChanged | TopologyChanged
	}
	if _, again := dedup(f.addresses, name, is, m.Header.Type == unix.RTM_DELADDR); again {
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
	key := append([]byte{message[0], message[1]}, message[4:8]...) // family, bits and ifindex
	for _, number := range []uint16{unix.IFA_LOCAL, unix.IFA_ADDRESS} {
		key = appendAttr(key, number, data[number])
	}
	return string(key), string(appendStable(slices.Clone(message[2:4]), attrs, volatileAddressAttrs)), true
}
