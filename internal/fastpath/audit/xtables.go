package audit

import (
	"encoding/binary"
	"fmt"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"golang.org/x/sys/unix"
)

func (r *exprEvaluator) target(data nlmsg.Map) {
	target, revision, info := data.Text(1), data.BigEndian32(unix.NFTA_TARGET_REV), data.Bytes(3) // NFTA_TARGET_NAME, NFTA_TARGET_INFO
	latest, proven := provenTargets[target]
	switch {
	case !proven || target == "CONNMARK" && restoresMark(revision, info):
		r.perPacket = "target " + target
	case revision > latest:
		r.perPacket = fmt.Sprintf("target %s of revision %d", target, revision)
	}
	r.setsMark = r.setsMark || target == "MARK"
	if target == "NOTRACK" || target == "CT" && len(info) > 0 && info[0]&1 != 0 {
		r.verdict = "notrack"
	}
}

func (r *exprEvaluator) match(data nlmsg.Map) {
	name, revision, info := data.Text(1), data.BigEndian32(unix.NFTA_MATCH_REV), data.Bytes(3) // NFTA_MATCH_NAME, NFTA_MATCH_INFO
	switch latest, proven := provenMatches[name]; {
	case !proven:
		r.perPacket = "match " + name
	case revision > latest:
		r.perPacket = fmt.Sprintf("match %s of revision %d", name, revision)
	}
	switch name {
	case "set":
		r.perPacket = "an ipset, which changes without a word"
	case "comment":
		return
	case "icmp", "icmp6", "sctp", "dccp", "ah", "esp":
		r.neverMatches = true
	case "tcp":
		r.neverMatches = r.neverMatches || r.chain.outer
		r.matchTCP(info)
	case "conntrack":
		if len(info) < nft.ConntrackState+2 {
			break
		}
		flags := binary.NativeEndian.Uint16(info[nft.ConntrackFlags:])
		if flags&trackExpire != 0 {
			r.perPacket = "ctexpire"
		}
		if flags&(trackStatus|trackDirection) != 0 {
			r.dependsOnReply("ct status or direction")
		}
		if flags&trackStatus != 0 && statusOf(info, revision)&^statusLasting != 0 {
			r.perPacket = "ct status"
		}
		if flags&1 != 0 && !r.stateless {
			inverted := info[nft.ConntrackInvert]&1 != 0
			r.matchStates(func(state uint32) bool { return info[nft.ConntrackState]&uint8(state) != 0 != inverted })
			if flags == 1 {
				return
			}
		}
	case "state":
		if len(info) >= 4 && !r.stateless {
			with := binary.NativeEndian.Uint32(info)
			r.matchStates(func(state uint32) bool { return with&state != 0 })
			return
		}
	}
	r.alwaysMatches = false
}

// statusOf returns the bits of a connection's status that a match tests, which follow those of the
// state. In the first revision they are bytes.
func statusOf(info []byte, revision int) uint16 {
	switch at := nft.ConntrackState + 2; {
	case revision <= 1:
		return uint16(info[nft.ConntrackState+1])
	case len(info) >= at+2:
		return binary.NativeEndian.Uint16(info[at:])
	}
	return ^uint16(0)
}

// unprovenExpression names an expression that is not proven to treat all packets of a flow alike.
func unprovenExpression(name string, data nlmsg.Map) string {
	known, proven := provenExpressions[name]
	if !proven {
		return name
	}
	for number := range data {
		if number == 0 || number > known {
			return fmt.Sprintf("attribute %d of expression %s", number, name)
		}
	}
	return ""
}

// sourceOf returns the register that a comparing expression reads.
func sourceOf(name string, data nlmsg.Map) (register int, ok bool) {
	number, ok := map[string]uint16{"bitwise": unix.NFTA_BITWISE_SREG, "cmp": unix.NFTA_CMP_SREG, "lookup": unix.NFTA_LOOKUP_SREG}[name]
	return data.BigEndian32(number), ok
}

// targetOf returns the register that an expression writes.
func targetOf(name string, data nlmsg.Map) (register int, ok bool) {
	number := map[string]uint16{"bitwise": unix.NFTA_BITWISE_DREG, "byteorder": unix.NFTA_BYTEORDER_DREG, "payload": unix.NFTA_PAYLOAD_DREG, "exthdr": unix.NFTA_EXTHDR_DREG, "meta": unix.NFTA_META_DREG,
		"ct": unix.NFTA_CT_DREG, "fib": unix.NFTA_FIB_DREG, "rt": unix.NFTA_RT_DREG, "hash": unix.NFTA_HASH_DREG, "xfrm": 1, "osf": 1}[name]
	return data.BigEndian32(number), number != 0 && data.Has(number)
}
