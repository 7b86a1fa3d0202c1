package topology

import (
	"encoding/binary"
	"fmt"

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

	// Boolean options of a bridge, by bit: no_ll_learn, mcast_vlan_snooping,
	// mdb_offload_fail_notification and fdb_local_vlan_0. The bit of mst_enable is excluded.
	provenBridgeOptions uint32 = 1<<0 | 1<<1 | 1<<3 | 1<<4

	deviceKindAttrs = map[string]*allowlist.Attrs{"bridge": &provenBridge, kindNetkit: &provenNetkit, "veth": &provenVeth}
)

const (
	bridgeBoolOptions = 46 // IFLA_BR_MULTI_BOOLOPT
	portForwarding    = 3  // BR_STATE_FORWARDING
)

// parseLinks reads the devices, and finds unproven attributes of them and of bridge ports.
func (r *reader) parseLinks() error {
	r.linkReasons = map[int]string{}
	for _, m := range r.links {
		l, err := netlink.LinkDeserialize(nil, m)
		if err != nil {
			return fmt.Errorf("parse device: %w", err)
		}
		r.byIndex[l.Attrs().Index], r.byName[l.Attrs().Name] = l, l
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
	index = int(int32(binary.NativeEndian.Uint32(message[4:])))
	var room, infoRoom, dataRoom nlmsg.Room
	attrs, err := nlmsg.AppendAttrs(room[:0], message[unix.SizeofIfInfomsg:])
	if err != nil {
		return index, "", err
	}
	info, err := nlmsg.AppendAttrs(infoRoom[:0], nlmsg.Find(attrs, unix.IFLA_LINKINFO))
	if err != nil {
		return index, "", err
	}
	kind := unix.ByteSliceToString(nlmsg.Find(info, nl.IFLA_INFO_KIND))
	if proven := deviceKindAttrs[kind]; proven != nil {
		data, err := nlmsg.AppendAttrs(dataRoom[:0], nlmsg.Find(info, nl.IFLA_INFO_DATA))
		if err != nil {
			return index, "", err
		}
		if why := proven.FirstUnknown(data); why != "" {
			return index, why, nil
		}
		if options := nlmsg.Find(data, bridgeBoolOptions); kind == "bridge" && len(options) >= 4 {
			if unknown := binary.NativeEndian.Uint32(options) &^ provenBridgeOptions; unknown != 0 {
				return index, fmt.Sprintf("options %#x of a bridge", unknown), nil
			}
		}
	}
	if unix.ByteSliceToString(nlmsg.Find(info, nl.IFLA_INFO_SLAVE_KIND)) == "bridge" {
		data, err := nlmsg.AppendAttrs(dataRoom[:0], nlmsg.Find(info, nl.IFLA_INFO_SLAVE_DATA))
		if err != nil {
			return index, "", err
		}
		if state := nlmsg.Find(data, unix.IFLA_BRPORT_STATE); len(state) == 1 && state[0] != portForwarding {
			return index, fmt.Sprintf("state %d of a bridge's port, which does not forward", state[0]), nil
		}
		return index, provenBridgePort.FirstUnknown(data), nil
	}
	return index, "", nil
}
