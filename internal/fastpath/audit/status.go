package audit

import (
	"fmt"
	"math/bits"
	"strings"
)

// Bits of a connection's status: IPS_*.
const (
	statusExpected       = 1 << 0
	statusSeenReply      = 1 << 1
	statusConfirmed      = 1 << 3
	statusSourceNAT      = 1 << 4
	statusDestinationNAT = 1 << 5
	statusNAT            = statusSourceNAT | statusDestinationNAT
	natDone              = 3 // a bit for each of these says that the kernel is done with it: so many bits further
	statusLasting        = statusExpected | statusSeenReply | statusConfirmed | statusNAT | statusNAT<<natDone
)

// status returns what is known of the status of connections, and other bits of it that are the same for all
// packets of a flow. Those of translations are set before the connection is confirmed, behind its first
// packet. A connection without an answer, whose first packet may be the one that is learned from, was neither
// translated nor expected. Of a tunnel, any packet may be the first one: see [exprEvaluator.states].
func (e *exprEvaluator) status() (known markValue, lasting uint32) {
	switch {
	case e.chain.outer && e.chain.untranslated:
		return markValue{}, 0
	case e.chain.outer && e.direct:
		return markValue{bits: statusDestinationNAT}, statusDestinationNAT
	case e.chain.outer:
		return markValue{}, statusDestinationNAT
	case e.unreplied:
		return markValue{bits: statusExpected | statusNAT}, 0
	case e.tracked():
		known.bits = statusSeenReply | statusConfirmed
		known.value = known.bits
	}
	return known, statusLasting
}

// matchStatus evaluates a rule that matches connections of which some bits of the status have a value, or have
// not.
func (e *exprEvaluator) matchStatus(mask, value uint32, equal bool) {
	known, _ := e.status()
	unfinished := value&statusNAT<<natDone&mask&^value != 0 // no packet meets a rule while it is translated
	switch {
	case value&^mask != 0 || (known.value^value)&known.bits&mask != 0 || unfinished:
		e.neverMatches, e.alwaysMatches = e.neverMatches || equal, e.alwaysMatches && !equal
	case mask&^known.bits == 0:
		e.neverMatches, e.alwaysMatches = e.neverMatches || !equal, e.alwaysMatches && equal
	default:
		e.useStatus(mask)
	}
}

// useStatus records that the rule depends on some bits of the status.
func (e *exprEvaluator) useStatus(mask uint32) {
	e.alwaysMatches = false
	known, lasting := e.status()
	if mask &^= known.bits | lasting; mask != 0 {
		e.perPacket = "ct status" + statusBits(mask)
	}
}

// statusBits names bits of the status, if these are not nearly all of them.
func statusBits(mask uint32) string {
	if bits.OnesCount32(mask) > 16 {
		return ""
	}
	var names []string
	for bit := uint32(1); bit != 0; bit <<= 1 {
		if name := provenStatus[bit] + perPacketStatus[bit]; mask&bit != 0 && name != "" {
			names = append(names, name)
		} else if mask&bit != 0 {
			names = append(names, fmt.Sprintf("%#x", bit))
		}
	}
	return " " + strings.Join(names, ",")
}
