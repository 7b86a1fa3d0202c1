package topology

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/allowlist"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// Device attributes that treat all packets of a flow alike. Attributes outside these tables are
// refused: known ones, such as a bridge port's backup port, and those that a later kernel adds.
var (
	provenBridge = allowlist.Attrs{Object: "a bridge", Names: allowlist.NamesFrom(1, "forward delay", "hello time", "max age", "ageing time", "stp state", "priority", "vlan filtering", "vlan protocol",
		"group fwd mask", "root id", "bridge id", "root port", "root path cost", "topology change", "topology change detected", "hello timer", "tcn timer", "topology change timer", "gc timer",
		"group address", "fdb flush", "mcast router", "mcast snooping", "mcast query use ifaddr", "mcast querier", "mcast hash elasticity", "mcast hash max", "mcast last member count",
		"mcast startup query count", "mcast last member interval", "mcast membership interval", "mcast querier interval", "mcast query interval", "mcast query response interval",
		"mcast startup query interval", "nf call iptables", "nf call ip6tables", "nf call arptables", "vlan default pvid", "pad", "vlan stats enabled", "mcast stats enabled", "mcast igmp version",
		"mcast mld version", "vlan stats per port", "boolean options", "mcast querier state", "fdb learned", "fdb max learned"), Test: "TestUnprovenLinks"}
	provenBridgePort = allowlist.Attrs{Object: "a bridge's port", Names: allowlist.NamesFrom(1, "state", "priority", "cost", "hairpin", "guard", "root block", "fast leave", "learning", "unicast flood",
		"proxy arp", "learning sync", "proxy arp wifi", "root id", "bridge id", "designated port", "designated cost", "id", "number", "topology change ack", "config pending", "message age timer",
		"forward delay timer", "hold timer", "flush", "multicast router", "pad", "mcast flood", "mcast to unicast", "vlan tunnel", "bcast flood", "group fwd mask", "neigh suppress", "isolated",
		"", "mrp ring open", "mrp in open", "mcast eht hosts limit", "mcast eht hosts", "locked", "mab", "mcast groups", "mcast max groups", "neigh vlan suppress"), Test: "TestUnprovenLinks"}
	provenNetkit = allowlist.Attrs{Object: "a netkit device", Names: allowlist.NamesFrom(1, "peer info", "primary", "policy", "peer policy", "mode", "scrub", "peer scrub", "headroom", "tailroom"), Test: "TestUnprovenLinks"}
	provenVeth   = allowlist.Attrs{Object: "a veth device", Names: allowlist.NamesFrom(1, "peer info"), Test: "TestUnprovenLinks"}
	provenVLAN   = allowlist.Attrs{Object: "a vlan device", Names: allowlist.NamesFrom(1, "id", "flags", "egress qos", "ingress qos", "protocol"), Test: "TestUnprovenLinks"}
	provenBond   = allowlist.Attrs{Object: "a bond", Names: allowlist.NamesFrom(1, "mode", "active slave", "miimon", "up delay", "down delay", "use carrier", "arp interval", "arp ip target", "arp validate", "arp all targets",
		"primary", "primary reselect", "fail over mac", "xmit hash policy", "resend igmp", "num peer notif", "all slaves active", "min links", "lp interval", "packets per slave",
		"ad lacp rate", "ad select", "ad info", "ad actor sys prio", "ad user port key", "ad actor system", "tlb dynamic lb", "peer notif delay", "ad lacp active", "missed max",
		"ns ip6 target", "coupled control", "broadcast neighbour", "lacp strict"), Test: "TestUnprovenLinks"}
	provenBondPort = allowlist.Attrs{Object: "a bond's port", Names: allowlist.NamesFrom(1, "state", "mii status", "link failure count", "permanent MAC", "queue id", "ad aggregator id", "ad actor port state", "ad partner port state",
		"priority", "ad actor port priority", "ad churn actor state", "ad churn partner state"), Test: "TestUnprovenLinks"}
)

// provenKind is what is proven of a kind of device, or of a device that is a port of one.
type provenKind struct {
	attrs *allowlist.Attrs
	// refusals say why a value of an attribute is refused; "": it is proven. An absent one is 0.
	refusals map[uint16]valueRefusal
}

type valueRefusal func(value uint32) string

var (
	deviceKinds = map[string]provenKind{
		"bridge":   {&provenBridge, map[uint16]valueRefusal{unix.IFLA_BR_MULTI_BOOLOPT: refusedBridgeOptions}},
		kindNetkit: {attrs: &provenNetkit},
		"veth":     {attrs: &provenVeth},
		kindVLAN:   {&provenVLAN, map[uint16]valueRefusal{nl.IFLA_VLAN_FLAGS: refusedVLANFlags}},
		kindBond: {&provenBond, map[uint16]valueRefusal{
			nl.IFLA_BOND_MODE:             allExcept("bond mode %s", bondModes, provenBondModes),
			nl.IFLA_BOND_FAIL_OVER_MAC:    allExcept("fail_over_mac %s", bondMACs, []string{"none"}),
			nl.IFLA_BOND_XMIT_HASH_POLICY: allExcept("xmit_hash_policy %s", bondPolicies, provenBondPolicies),
		}},
	}
	portKinds = map[string]provenKind{
		"bridge": {&provenBridgePort, map[uint16]valueRefusal{unix.IFLA_BRPORT_STATE: refusedPortState}},
		kindBond: {&provenBondPort, map[uint16]valueRefusal{nl.IFLA_BOND_SLAVE_QUEUE_ID: allExcept("queue_id %s", nil, []string{"0"})}},
	}
)

// Values of a bond's attributes, by number. With the proven modes and policies, the port of a packet
// depends on its outermost headers, or on no packet. With others it may depend on a hash that the
// kernel has taken of the packet before, or on earlier packets, or the bond changes packets.
var (
	bondModes          = []string{"balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"}
	bondMACs           = []string{"none", "active", "follow"}
	bondPolicies       = []string{"layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac"}
	provenBondModes    = []string{"active-backup", "balance-xor", "802.3ad"}
	provenBondPolicies = []string{"layer2", "layer2+3", "layer3+4"}
)

// allExcept refuses all values of an attribute except some. The reason has the name of the value.
func allExcept(reason string, names, proven []string) valueRefusal {
	return func(value uint32) string {
		name := fmt.Sprint(value)
		if int(value) < len(names) {
			name = names[value]
		}
		if slices.Contains(proven, name) {
			return ""
		}
		return fmt.Sprintf(reason, name)
	}
}

const (
	// Boolean options of a bridge, by bit: no_ll_learn, mcast_vlan_snooping,
	// mdb_offload_fail_notification and fdb_local_vlan_0. The bit of mst_enable is excluded.
	provenBridgeOptions = 1<<0 | 1<<1 | 1<<3 | 1<<4
	portForwarding      = 3 // BR_STATE_FORWARDING
)

func refusedBridgeOptions(options uint32) string {
	if unknown := options &^ provenBridgeOptions; unknown != 0 {
		return fmt.Sprintf("options %#x of a bridge", unknown)
	}
	return ""
}

func refusedPortState(state uint32) string {
	if state != portForwarding {
		return fmt.Sprintf("state %d of a bridge's port, which does not forward", state)
	}
	return ""
}

// Flags of a VLAN device. Without reorderHeader packets keep their tags where programs see them. The
// other ones concern protocols of its own, and whether it is down when the device below it is.
const (
	reorderHeader   = 1 << 0 // VLAN_FLAG_REORDER_HDR
	provenVLANFlags = 0xf    // and GVRP, LOOSE_BINDING, MVRP
)

func refusedVLANFlags(flags uint32) string {
	switch {
	case flags&reorderHeader == 0:
		return "reorder_hdr off of a vlan device"
	case flags&^provenVLANFlags != 0:
		return fmt.Sprintf("flags %#x of a vlan device", flags&^provenVLANFlags)
	}
	return ""
}

// refusal names an attribute that is not proven, or the value of one; "": there is none.
func (k provenKind) refusal(data nlmsg.Attrs) string {
	if why := k.attrs.FirstUnknown(data); why != "" {
		return why
	}
	for _, number := range slices.Sorted(maps.Keys(k.refusals)) {
		value, ok := leadingNumber(nlmsg.Find(data, number))
		if !ok {
			return fmt.Sprintf("attribute %d of %s, which cannot be read", number, k.attrs.Object)
		}
		if why := k.refusals[number](value); why != "" {
			return why
		}
	}
	return ""
}

// leadingNumber is the number that an attribute begins with; 0: it is absent.
func leadingNumber(value []byte) (number uint32, ok bool) {
	switch n := len(value); {
	case n == 0:
		return 0, true
	case n == 1:
		return uint32(value[0]), true
	case n == 2:
		return uint32(binary.NativeEndian.Uint16(value)), true
	case n >= 4:
		return binary.NativeEndian.Uint32(value), true
	}
	return 0, false
}

// parseLinks reads the devices, and finds unproven attributes of them and of bridge ports.
func (r *reader) parseLinks() error {
	r.linkReasons, r.geneves, r.geneveTo = map[int]string{}, map[int][]byte{}, map[geneveEnd][]string{}
	for _, m := range r.links {
		l, err := netlink.LinkDeserialize(nil, m)
		if err != nil {
			return fmt.Errorf("parse device: %w", err)
		}
		r.byIndex[l.Attrs().Index], r.byName[l.Attrs().Name] = l, l
		if geneve, ok := l.(*netlink.Geneve); ok {
			r.noteGeneve(geneve, m)
		}
		index, reason, err := auditLink(m)
		if err != nil {
			return fmt.Errorf("parse device: %w", err)
		}
		if reason != "" {
			r.linkReasons[index] = reason
		}
	}
	return nil
}

// auditLink names an unproven attribute in the kernel's message about a device; "" means none.
func auditLink(message []byte) (index int, reason string, err error) {
	if len(message) < unix.SizeofIfInfomsg {
		return 0, "", fmt.Errorf("message of %d bytes is too short", len(message))
	}
	index = linkIndex(message)
	var room, infoRoom, dataRoom nlmsg.Room
	attrs, err := nlmsg.AppendAttrs(room[:0], message[unix.SizeofIfInfomsg:])
	if err != nil {
		return index, "", err
	}
	info, err := nlmsg.AppendAttrs(infoRoom[:0], nlmsg.Find(attrs, unix.IFLA_LINKINFO))
	if err != nil {
		return index, "", err
	}
	for _, part := range []struct {
		proven     map[string]provenKind
		kind, data uint16
	}{{deviceKinds, nl.IFLA_INFO_KIND, nl.IFLA_INFO_DATA}, {portKinds, nl.IFLA_INFO_SLAVE_KIND, nl.IFLA_INFO_SLAVE_DATA}} {
		proven, ok := part.proven[unix.ByteSliceToString(nlmsg.Find(info, part.kind))]
		if !ok {
			continue
		}
		data, err := nlmsg.AppendAttrs(dataRoom[:0], nlmsg.Find(info, part.data))
		if err != nil {
			return index, "", err
		}
		if reason = proven.refusal(data); reason != "" {
			return index, reason, nil
		}
	}
	return index, "", nil
}
