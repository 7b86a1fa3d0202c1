package audit

import (
	"slices"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"golang.org/x/sys/unix"
)

// trackProtocol follows in which register a rule has the packet's protocol, to look it up alone or
// as a part of a key. nft loads the parts of a key into ascending registers: whatever may write over
// an earlier part ends this.
func (e *exprEvaluator) trackProtocol(name string, data nlmsg.Map, into int, writes bool) {
	switch {
	case name == "lookup":
	case name == "meta" && writes && data.BigEndian32(unix.NFTA_META_KEY) == unix.NFT_META_L4PROTO, name == "payload" && writes && e.loadsProtocol(data):
		e.protocolIn = into
	case name != "meta" && name != "payload", writes && registerOffset(into) <= registerOffset(e.protocolIn):
		e.protocolIn = 0
	}
}

// loadsProtocol reports whether a load of header bytes is that of the IP header's protocol.
func (e *exprEvaluator) loadsProtocol(data nlmsg.Map) bool {
	return data.BigEndian32(unix.NFTA_PAYLOAD_BASE) == unix.NFT_PAYLOAD_NETWORK_HEADER &&
		data.BigEndian32(unix.NFTA_PAYLOAD_OFFSET) == e.Family.header().protocol && data.BigEndian32(unix.NFTA_PAYLOAD_LEN) == 1
}

// registerOffset is the offset of a register, in bytes: 1 to 4 have 16 each, and those from 8 on
// (NFT_REG32_00) are their quarters.
func registerOffset(register int) int {
	if register >= unix.NFT_REG32_00 {
		return 4 * (register - unix.NFT_REG32_00)
	}
	return 16 * (register - 1)
}

// toOnePort reports whether the packets have the tunnel's protocol and destination port: they are those of the tunnel,
// or pods' packets to its port.
func (e *exprEvaluator) toOnePort() bool { return e.chain.outer || e.toTunnel }

// hasOtherProtocols reports whether a lookup matches no packet with the tunnel's protocol, since each key of
// the set has another one in it.
func (e *exprEvaluator) hasOtherProtocols(of *filterSet, data nlmsg.Map) bool {
	if !e.toOnePort() || e.protocolIn == 0 || of.perPacket != "" || of.flags&unix.NFT_SET_INTERVAL != 0 || data.BigEndian32(unix.NFTA_LOOKUP_FLAGS) > 0 {
		return false
	}
	at := registerOffset(e.protocolIn) - registerOffset(data.BigEndian32(unix.NFTA_LOOKUP_SREG))
	return at >= 0 && !slices.ContainsFunc(of.elements, func(el element) bool { return len(el.key) <= at || int(el.key[at]) == e.Protocol })
}
