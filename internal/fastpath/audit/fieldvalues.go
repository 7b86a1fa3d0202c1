package audit

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"golang.org/x/sys/unix"
)

// fieldValues is a header field that may differ between packets of one flow on the fast path.
type fieldValues struct {
	name   string
	values [][]byte // that the field may have
}

const (
	flagsTCP = 13 // offset of the byte in the header
	fragment = 6  // offset of the two bytes in the header of IPv4

	pushOrUrgent = 0x28
	congestion   = 0xc0 // CWR and ECE
	acknowledges = 0x10
)

// carriedFlags are the TCP flags of packets on the fast path: packets with SYN, FIN or RST, or
// without ACK, are left to the kernel.
func carriedFlags() *fieldValues {
	v := &fieldValues{name: "tcp flags"}
	for flags := range 1 << 8 {
		if flags&^(pushOrUrgent|congestion) == acknowledges {
			v.values = append(v.values, []byte{byte(flags)})
		}
	}
	return v
}

// carriedFragment is the fragment field of IPv4, in its first bytes: fragments are left to the
// kernel, and DF may be set or not.
func carriedFragment(size int) *fieldValues {
	plain, dontFragment := []byte{0, 0}, []byte{0x40, 0}
	return &fieldValues{"ip frag-off", [][]byte{plain[:size], dontFragment[:size]}}
}

// fits reports whether the keys of a set consist of exactly this field.
func (v *fieldValues) fits(list []element) bool {
	return !slices.ContainsFunc(list, func(e element) bool { return len(e.key) != 0 && len(e.key) != len(v.values[0]) })
}

// matchField evaluates a rule that matches this field.
func (e *exprEvaluator) matchField(v *fieldValues, passes func(value []byte) bool) {
	some, all := matchCounts(v.values, passes)
	e.neverMatches = e.neverMatches || !some
	if some && !all {
		e.perPacket = v.name
	}
}

// matchCounts reports whether some packets match, and whether all do.
func matchCounts[T any](of []T, passes func(T) bool) (some, all bool) {
	n := 0
	for _, one := range of {
		if passes(one) {
			n++
		}
	}
	return n > 0, n == len(of)
}

// maskField records that a mask is applied to the field.
func (e *exprEvaluator) maskField(data nlmsg.Map) {
	mask, xor := data.DataValue(unix.NFTA_BITWISE_MASK), data.DataValue(unix.NFTA_BITWISE_XOR)
	v := fieldValues{name: e.field.name}
	for _, value := range e.field.values {
		if data.BigEndian32(bitwiseOp) > 0 || len(mask) != len(value) || len(xor) != len(value) {
			e.perPacket, e.field, e.pending = v.name, nil, false
			return
		}
		value = slices.Clone(value)
		for i := range value {
			value[i] = value[i]&mask[i] ^ xor[i]
		}
		v.values = append(v.values, value)
	}
	e.field = &v
}

const bitwiseOp = 6 // NFTA_BITWISE_OP; 0: with a mask

// compareField evaluates a comparison of the field. It supports only equality.
func (e *exprEvaluator) compareField(value []byte, op int) {
	e.pending = false
	if len(value) != len(e.field.values[0]) || op != unix.NFT_CMP_EQ && op != unix.NFT_CMP_NEQ {
		e.perPacket = e.field.name
		return
	}
	e.matchField(e.field, func(is []byte) bool { return bytes.Equal(is, value) == (op == unix.NFT_CMP_EQ) })
}

// matchTCP evaluates iptables' tcp match: struct xt_tcp.
func (e *exprEvaluator) matchTCP(info []byte) {
	const option, mask, want, inverted, size = 8, 9, 10, 11, 12
	const flagsInverted = 1 << 2
	if len(info) < size || info[option] != 0 {
		e.perPacket = "tcp option"
	}
	if len(info) >= size {
		e.matchField(carriedFlags(), func(is []byte) bool {
			return is[0]&info[mask] == info[want] != (info[inverted]&flagsInverted != 0)
		})
	}
}

// payload evaluates a load of header bytes. It knows the fields of IP, TCP and UDP that are equal
// for all packets of a flow, or whose values in packets of the fast path are known. Rules for one
// version of IP do not read headers of the other.
func (e *exprEvaluator) payload(data nlmsg.Map) {
	at, size := data.BigEndian32(unix.NFTA_PAYLOAD_OFFSET), data.BigEndian32(unix.NFTA_PAYLOAD_LEN)
	if data.Has(unix.NFTA_PAYLOAD_SREG) {
		e.unproven = "writes packets"
		return
	}
	e.loaded = otherField
	shared := false
	switch data.BigEndian32(unix.NFTA_PAYLOAD_BASE) {
	case unix.NFT_PAYLOAD_LL_HEADER:
		shared = !e.chain.outer
		if at == 12 && size == 2 {
			e.loaded, shared = etherType, true
		}
	case unix.NFT_PAYLOAD_NETWORK_HEADER:
		// Version, protocol and addresses. Beside its version, IPv6 has half of the traffic class.
		h, v4 := e.Family.header(), e.Family == IPv4
		shared = v4 && at == 0 && size == 1 || at == h.protocol && size == 1 || at >= h.addresses && at+size <= h.addresses+h.length
		switch {
		case at == h.protocol && size == 1:
			e.loaded = transport
		case e.asksAddress(at, size):
			e.loaded = outerAddress
		case v4 && at == fragment && (size == 1 || size == 2):
			e.field = carriedFragment(size)
		}
	case unix.NFT_PAYLOAD_TRANSPORT_HEADER:
		inner := e.chain.outer && e.Port == 0 // it is the IP header of the pod's packet
		shared = at+size <= 4 && !inner       // ports
		switch {
		case inner:
		case e.toOnePort() && at == 0 && size == 4:
			e.loaded, shared = bothPorts, !e.chain.outer
		case e.chain.outer && at < 2:
			shared = false
		case at == 2 && size == 2:
			e.loaded = targetPort
		case at == flagsTCP && size == 1 && e.tcp:
			e.field = carriedFlags()
		}
	}
	if e.pending = e.field != nil; !shared && !e.pending {
		e.perPacket = fmt.Sprintf("bytes %d to %d of a header", at, at+size-1)
	}
	if e.loaded != transport && e.loaded != etherType && !(e.loaded == targetPort && e.toOnePort()) {
		e.alwaysMatches = false
	}
}
