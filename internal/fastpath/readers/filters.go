package readers

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/allowlist"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// Allowlist lists the kinds, attributes and actions of filters, and the options of queueing disciplines, that are
// proven safe.
func Allowlist() []allowlist.Row {
	rows := []allowlist.Row{
		{Kind: "filter of the wire, where it sends", Names: allowlist.Keys(provenFilters), Test: "TestReadersOfWire"},
		{Kind: "action of a filter of the wire", Names: allowlist.Keys(provenActions), Test: "TestFilterActions"},
	}
	for _, proven := range []map[string]provenKind{provenFilters, provenOptions} {
		for _, kind := range slices.Sorted(maps.Keys(proven)) {
			a := proven[kind].attrs
			rows = append(rows, allowlist.Row{
				Kind: "attribute of " + a.Object, Names: allowlist.Names(a.Names), Test: a.Test,
			})
		}
	}
	return rows
}

// provenKind is what is proven of a kind of filter or of queueing discipline.
type provenKind struct {
	attrs   allowlist.Attrs
	actions uint16            // of a filter: the attribute that holds its actions
	refused map[uint16]string // names of other attributes, as tc has them
}

// provenFilters are the kinds of tc filters that are safe where the wire sends, with their attributes. Those that are
// left out read what the kernel knows of a packet besides: the device that it came from, its conntrack entry, the
// tunnel that it came through, a hash. That of a bpf filter which is a program of eBPF cannot be known.
var provenFilters = map[string]provenKind{
	"u32": {
		attrs: filterAttrs("u32", allowlist.NamesFrom(1, "class", "hash table", "link", "divisor", "selector", "police",
			"actions", "", "counters", "mark", "flags", "pad")),
		actions: nl.TCA_U32_ACT, refused: map[uint16]string{nl.TCA_U32_INDEV: inDevice},
	},
	"fw": {
		attrs:   filterAttrs("fw", allowlist.NamesFrom(1, "class", "police", "", "actions", "mask")),
		actions: nl.TCA_FW_ACT, refused: map[uint16]string{nl.TCA_FW_INDEV: inDevice},
	},
	"matchall": {
		attrs:   filterAttrs("matchall", allowlist.NamesFrom(1, "class", "actions", "flags", "counters", "pad")),
		actions: nl.TCA_MATCHALL_ACT,
	},
	"bpf": {
		attrs: filterAttrs("bpf", allowlist.NamesFrom(1, "actions", "police", "class", "length", "instructions", "file",
			"name", "flags", "generic flags", "tag", "id")),
		actions: nl.TCA_BPF_ACT,
	},
	"flower": {attrs: filterAttrs("flower", provenFlower), actions: nl.TCA_FLOWER_ACT, refused: refusedFlower},
}

func filterAttrs(kind string, names map[uint16]string) allowlist.Attrs {
	return allowlist.Attrs{Object: "a " + kind + " filter", Names: names, Test: "TestFilterAttributes"}
}

// inDevice is how tc calls the device that a packet came from.
const inDevice = "indev"

// provenFlower are the attributes of flower that match what is in a packet, or match nothing.
var provenFlower = numbered(map[uint16][]string{
	1: {"class"},
	3: {"actions", "destination MAC", "destination MAC mask", "source MAC", "source MAC mask", "ethertype", "protocol",
		"source", "source mask", "destination", "destination mask",
		"source6", "source6 mask", "destination6", "destination6 mask",
		"TCP source", "TCP destination", "UDP source", "UDP destination", "flags",
		"VLAN id", "VLAN priority", "VLAN ethertype"},
	35: {"TCP source mask", "TCP destination mask", "UDP source mask", "UDP destination mask",
		"SCTP source mask", "SCTP destination mask", "SCTP source", "SCTP destination"},
	47: {"fragments", "fragments mask", "ICMP code", "ICMP code mask", "ICMP type", "ICMP type mask",
		"ICMPv6 code", "ICMPv6 code mask", "ICMPv6 type", "ICMPv6 type mask",
		"ARP sender", "ARP sender mask", "ARP target", "ARP target mask", "ARP operation", "ARP operation mask",
		"ARP sender MAC", "ARP sender MAC mask", "ARP target MAC", "ARP target MAC mask",
		"MPLS TTL", "MPLS bottom", "MPLS class", "MPLS label", "TCP flags", "TCP flags mask",
		"TOS", "TOS mask", "TTL", "TTL mask", "inner VLAN id", "inner VLAN priority", "inner VLAN ethertype"},
	86: {"hardware count",
		"least source port", "greatest source port", "least destination port", "greatest destination port"},
	99:  {"MPLS labels"},
	102: {"number of VLANs", "PPPoE session", "PPP protocol", "L2TPv3 session"},
	108: {"SPI", "SPI mask"},
})

// refusedFlower are others of them.
var refusedFlower = numbered(map[uint16][]string{
	2: {inDevice},
	26: {"enc_key_id", "enc_src_ip", "enc_src_ip", "enc_dst_ip", "enc_dst_ip",
		"enc_src_ip", "enc_src_ip", "enc_dst_ip", "enc_dst_ip"},
	43:  {"enc_src_port", "enc_src_port", "enc_dst_port", "enc_dst_port"},
	80:  {"enc_tos", "enc_tos", "enc_ttl", "enc_ttl", "enc_opts", "enc_opts"},
	91:  {"ct_state", "ct_state", "ct_zone", "ct_zone", "ct_mark", "ct_mark", "ct_label", "ct_label"},
	100: {"hash", "hash"},
})

// numbered numbers lists of names, each from its own number on.
func numbered(lists map[uint16][]string) map[uint16]string {
	all := map[uint16]string{}
	for first, names := range lists {
		maps.Copy(all, allowlist.NamesFrom(first, names...))
	}
	return all
}

// provenActions are the actions of those filters that treat packets of the fast path like any
// others. The table excludes ct, connmark and ctinfo, because they read a packet's conntrack entry,
// which packets of the fast path lack, and bpf, because a program may read anything. It excludes mirred,
// because the device that it redirects to is not audited.
var provenActions = allowlist.NameSet("gact", "police", "vlan", "pedit", "csum", "nat", "skbedit",
	"sample", "tunnel_key", "mpls", "gate", "simple")

// UnprovenFilter names what may tell packets of the fast path from others by more than their marks, in the kernel's
// message about a filter, or about the head of a chain of filters: "filters of kind basic"; "": nothing may.
func UnprovenFilter(message []byte) string {
	const unreadable = "filters that cannot be read"
	if len(message) < nl.SizeofTcMsg {
		return unreadable
	}
	attrs, err := nlmsg.AppendAttrs(nil, message[nl.SizeofTcMsg:])
	if err != nil {
		return unreadable
	}
	kind := unix.ByteSliceToString(nlmsg.Find(attrs, nl.TCA_KIND))
	proven, ok := provenFilters[kind]
	options, err := nlmsg.AppendAttrs(nil, nlmsg.Find(attrs, nl.TCA_OPTIONS))
	switch {
	case !ok:
		return "filters of kind " + kind
	case err != nil:
		return unreadable
	case len(options) == 0: // the head of a chain, which does nothing by itself
		return ""
	}
	if name := proven.firstRefused(options); name != "" {
		return fmt.Sprintf("filters of kind %s by %s", kind, name)
	}
	if kind == "bpf" && !provenBytecode(nlmsg.Find(options, nl.TCA_BPF_OPS)) {
		return "filters of kind bpf"
	}
	actions, err := nlmsg.AppendAttrs(nil, nlmsg.Find(options, proven.actions))
	if err != nil {
		return unreadable
	}
	for _, a := range actions {
		if name := unix.ByteSliceToString(nlmsg.FindIn(a.Value, nl.TCA_ACT_KIND)); !provenActions[name] {
			return "filters of action " + cmp.Or(name, "that cannot be read")
		}
	}
	return ""
}

// firstRefused names the first attribute that is not proven; "": there is none.
func (k provenKind) firstRefused(list nlmsg.Attrs) string {
	for _, a := range list {
		if number := nlmsg.Number(a.Attr.Type); k.attrs.Names[number] == "" {
			return cmp.Or(k.refused[number], fmt.Sprintf("attribute %d", number))
		}
	}
	return ""
}

// Of classic BPF: the instructions that load from a fixed offset, whatever their size, and the offsets from which on
// they load what the kernel knows of a packet instead of its contents.
const (
	classAndMode = 0xe7
	ancillary    = 1<<32 - 0x1000 // SKF_AD_OFF
)

// provenAncillary are those of such offsets, of SKF_AD_*, that hold for packets of the fast path as well, or are marks.
var provenAncillary = map[uint32]bool{0 /* protocol */ : true, 20 /* mark */ : true}

// provenBytecode tells whether instructions of classic BPF read nothing but packets and their marks.
func provenBytecode(instructions []byte) bool {
	const size = 8 // of struct sock_filter
	if len(instructions) == 0 || len(instructions)%size != 0 {
		return false
	}
	for one := range slices.Chunk(instructions, size) {
		code, offset := binary.NativeEndian.Uint16(one), binary.NativeEndian.Uint32(one[4:])
		if code&classAndMode == unix.BPF_LD|unix.BPF_ABS && offset >= ancillary && !provenAncillary[offset-ancillary] {
			return false
		}
	}
	return true
}
