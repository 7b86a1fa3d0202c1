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
func (r *exprEvaluator) hash(data nlmsg.Map) {
	if r.chain.outer && data.BigEndian32(unix.NFTA_HASH_TYPE) == unix.NFT_HASH_SYM {
		r.perPacket = "symhash"
	}
	r.derive(data)
}

// matchTunnel evaluates those matches of iptables that may read the MACs or the source port of a tunnel's
// packet.
func (r *exprEvaluator) matchTunnel(name string, info []byte) {
	switch {
	case name == "mac":
		r.perPacket = "match mac"
	case r.Port == 0: // they match no packet of such a tunnel
	case name == "udp":
		r.matchUDP(info)
	case len(info) == 0 || info[0] != multiportTargets:
		r.perPacket = "match multiport of source ports"
	}
}

const multiportTargets = 1 // enum xt_multiport_flags

// matchUDP evaluates iptables' udp match of a tunnel's packet: struct xt_udp.
func (r *exprEvaluator) matchUDP(info []byte) {
	const inverted, size = 8, 9
	if len(info) < size {
		r.perPacket = "match udp"
		return
	}
	port := func(i int) uint16 { return binary.NativeEndian.Uint16(info[2*i:]) }
	within := r.Port >= port(2) && r.Port <= port(3)
	r.neverMatches = r.neverMatches || within == (info[inverted]&2 != 0)
	if port(0) != 0 || port(1) != ^uint16(0) {
		r.perPacket = "match udp of source ports"
	}
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
