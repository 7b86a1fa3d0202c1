package audit

import (
	"bytes"
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// The packets of a tunnel that carry one flow of a pod may differ where the programs do not look: in their
// MACs, since a router need not send from the one that it is sent to, and in their source port, which their
// sender chooses. A rule that reads these may treat the next packet in another way.

const (
	trackReply       = 1 // IP_CT_DIR_REPLY
	trackID          = trackSource + 4
	trackSourcePorts = 1<<8 | 1<<11 // struct xt_conntrack_mtinfo2, flags: that of the original packet, and of the reply to it
)

// readsSource reports whether a ct key is, or depends on, the source port of a tunnel's packet. There is a
// connection for each.
func readsSource(key int, direction []byte) bool {
	return key == unix.NFT_CT_PROTO_SRC || key == unix.NFT_CT_PROTO_DST && bytes.Equal(direction, []byte{trackReply}) || key == trackID
}

// hash evaluates a hash, which may be one of all addresses and ports.
func (e *exprEvaluator) hash(data nlmsg.Map) {
	if e.chain.outer && data.BigEndian32(unix.NFTA_HASH_TYPE) == unix.NFT_HASH_SYM {
		e.perPacket = "symhash"
	}
	e.derive(data)
}

// matchUDP evaluates iptables' udp match of packets to the tunnel's port: struct xt_udp. Of pods' packets, the source
// port is that of their flow.
func (e *exprEvaluator) matchUDP(info []byte) {
	const inverted, size = 8, 9
	switch {
	case !e.toOnePort() || e.Port == 0: // it matches no packet of a tunnel without ports
		return
	case len(info) < size:
		e.perPacket = "match udp"
		return
	}
	port := func(i int) uint16 { return binary.NativeEndian.Uint16(info[2*i:]) }
	within := e.Port >= port(2) && e.Port <= port(3)
	e.neverMatches = e.neverMatches || within == (info[inverted]&2 != 0)
	if e.chain.outer && (port(0) != 0 || port(1) != ^uint16(0)) {
		e.perPacket = "match udp of source ports"
	}
}

// matchMultiport evaluates iptables' match of several ports likewise: struct xt_multiport_v1. Each number may begin a
// range, which the next one ends.
func (e *exprEvaluator) matchMultiport(info []byte, revision int) {
	const targets, most, numbers, size = 1, 15, 2, 48 // enum xt_multiport_flags, XT_MULTI_PORTS
	const ranges = numbers + 2*most
	switch {
	case !e.toOnePort() || e.Port == 0:
		return
	case len(info) == 0 || info[0] != targets:
		if e.chain.outer {
			e.perPacket = "match multiport of source ports"
		}
		return
	case revision != 1 || len(info) < size:
		return
	}
	within := false
	for i, count := 0, min(int(info[1]), most); i < count; i++ {
		first := binary.NativeEndian.Uint16(info[numbers+2*i:])
		last := first
		if info[ranges+i] != 0 && i+1 < count {
			i++
			last = binary.NativeEndian.Uint16(info[numbers+2*i:])
		}
		within = within || e.Port >= first && e.Port <= last
	}
	e.neverMatches = e.neverMatches || within == (info[size-1] != 0)
}

// readsSource reports whether a match, which begins with struct xt_set_info, asks the set for a MAC or for the
// source port of a packet. In its first revision it is not said in the same place.
func (s ipset) readsSource(info []byte, revision int) bool {
	const flags, size = 3, 4 // bit 0 inverts the match, and each of the next is that of a key: its source
	_, keys, _ := strings.Cut(s.kind, ":")
	for i, key := range strings.Split(keys, ",") {
		if key == "mac" || key == "port" && (revision == 0 || len(info) < size || info[flags]>>(i+1)&1 != 0) {
			return true
		}
	}
	return false
}
