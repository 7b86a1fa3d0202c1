package audit

import (
	"encoding/binary"
	"fmt"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"golang.org/x/sys/unix"
)

func (e *exprEvaluator) target(data nlmsg.Map) {
	target, revision, info := data.Text(1), data.BigEndian32(unix.NFTA_TARGET_REV), data.Bytes(3) // NFTA_TARGET_NAME, NFTA_TARGET_INFO
	switch latest, proven := provenTargets[target]; {
	case !proven:
		e.unproven = "target " + target
	case revision > latest:
		e.unproven = fmt.Sprintf("target %s of revision %d", target, revision)
	}
	e.acts = e.acts || !loggingTargets[target] && target != "REJECT"
	if loggingTargets[target] {
		e.logAt()
	}
	if trackingTargets[target] {
		e.goByTracking()
	}
	switch {
	case target == "SECMARK" || target == "CONNSECMARK":
		e.setsSecmark = true
	case target == "MARK" && revision == 2:
		e.targetMark(info)
	case target == "MARK":
		e.setMark(markValue{})
	case target == "CONNMARK":
		e.targetConnmark(revision, info)
	case target == "REJECT":
		e.decide("drop")
	case target == "NOTRACK" || target == "CT" && len(info) > 0 && info[0]&1 != 0:
		e.untrack()
	}
}

func (e *exprEvaluator) match(data nlmsg.Map) {
	name, revision, info := data.Text(1), data.BigEndian32(unix.NFTA_MATCH_REV), data.Bytes(3) // NFTA_MATCH_NAME, NFTA_MATCH_INFO
	latest, proven := provenMatches[name]
	known, perPacket := perPacketMatches[name]
	switch {
	case !proven && !perPacket:
		e.unproven = "match " + name
	case revision > max(latest, known):
		e.unproven = fmt.Sprintf("match %s of revision %d", name, revision)
	case perPacket && name != "set": // see below
		e.perPacket = "match " + name
		if statefulMatches[name] {
			e.consume(e.perPacket)
		}
	}
	if trackingMatches[name] {
		e.goByTracking()
	}
	switch name {
	case "set":
		e.alwaysMatches = false
		e.err = e.matchIPSet(info, revision)
		return
	case "comment":
		return
	case "mark":
		if revision == 1 {
			e.matchMarkOf(e.marks.packet, info)
			return
		}
	case "connmark":
		e.alwaysMatches = e.alwaysMatches && e.tracked()
		e.matchMarkOf(e.connMark(), info)
		return
	case "nfacct":
		if e.neverMatches {
			return
		}
		e.logAt()
		limited, err := hasQuota(unix.ByteSliceToString(info))
		e.err = err
		if err == nil && !limited {
			return // it only counts
		}
		e.perPacket = "match nfacct, with a quota"
		e.consume(e.perPacket)
		return
	case "icmp", "icmp6", "sctp", "dccp", "ah", "esp":
		e.neverMatches = true
	case "rpfilter":
		if len(info) == 0 || info[0]&rpfilterValidMark != 0 {
			e.readMark(e.marks.packet)
		}
	case "mac":
		if e.chain.outer {
			e.perPacket = "match mac"
		}
	case "udp":
		e.matchUDP(info)
	case "multiport":
		e.matchMultiport(info, revision)
	case "tcp":
		e.neverMatches = e.neverMatches || e.toOnePort()
		e.matchTCP(info)
	case "conntrack":
		if e.matchConntrack(info, revision) {
			return
		}
	case "state":
		if len(info) >= 4 {
			with := binary.NativeEndian.Uint32(info)
			e.matchStates(func(state uint32) bool { return with&xtState(state) != 0 })
			return
		}
	}
	e.alwaysMatches = false
}

// matchConntrack evaluates iptables' match conntrack; true: it asks for nothing but the state and the status.
func (e *exprEvaluator) matchConntrack(info []byte, revision int) (evaluated bool) {
	if len(info) < nft.ConntrackState+2 {
		return false
	}
	flags := binary.NativeEndian.Uint16(info[nft.ConntrackFlags:])
	if e.chain.outer && flags&trackSourcePorts != 0 {
		e.perPacket = "ct source port"
	}
	if flags&trackExpire != 0 {
		e.perPacket = "ctexpire"
	}
	if flags&trackDirection != 0 {
		e.dependsOnReply("ct direction")
	}
	if flags&trackOfState != 0 {
		e.matchConntrackState(info, revision)
	}
	switch status := statusOf(info, revision); {
	case flags&trackOfStatus == 0:
	case flags&trackOfState != 0 && !e.tracked(): // a packet without a connection may match by its state alone
		e.useStatus(status)
	default:
		e.alwaysMatches = e.alwaysMatches && e.tracked()
		e.matchStatus(status, 0, binary.NativeEndian.Uint16(info[nft.ConntrackInvert:])&trackOfStatus != 0)
	}
	return flags&^(trackOfState|trackOfStatus|trackAlias) == 0
}

// matchConntrackState evaluates the states of the match.
func (e *exprEvaluator) matchConntrackState(info []byte, revision int) {
	inverted, states := info[nft.ConntrackInvert]&1 != 0, uint32(info[nft.ConntrackState])
	if revision >= 2 {
		states = uint32(binary.NativeEndian.Uint16(info[nft.ConntrackState:]))
	}
	// The state of a translated connection says so.
	none, every := 0, 0
	translations := []uint32{0, xtSourceNAT, xtDestinationNAT, xtSourceNAT | xtDestinationNAT}
	if e.unreplied {
		translations = translations[:1] // others are not carried
	}
	if e.direct && e.chain.outer && !e.chain.untranslated {
		translations = translations[:2]
	}
	for _, translated := range translations {
		at := *e
		at.alwaysMatches, at.neverMatches = true, false
		at.matchStates(func(state uint32) bool { return states&(xtState(state)|translated) != 0 != inverted })
		e.replyDependent, e.answered, e.separates = at.replyDependent, at.answered, at.separates
		if at.neverMatches {
			none++
		}
		if at.alwaysMatches {
			every++
		}
	}
	e.neverMatches = e.neverMatches || none == len(translations)
	e.alwaysMatches = e.alwaysMatches && every == len(translations)
	if none < len(translations) && every < len(translations) {
		e.useStatus(states / xtSourceNAT % 4 * statusSourceNAT)
	}
}

// States of iptables: struct xt_conntrack_mtinfo1. The others are those of nftables.
const (
	xtSourceNAT      = 1 << 6
	xtDestinationNAT = 1 << 7
	xtUntracked      = 1 << 8
)

const rpfilterValidMark = 1 << 1 // XT_RPFILTER_VALID_MARK: it looks up the way to the sender by the packet's mark

// xtState is the state of nftables as iptables numbers it.
func xtState(state uint32) uint32 {
	if state == stateUntracked {
		return xtUntracked
	}
	return state
}

// statusOf returns the bits of a connection's status that a match tests, which follow those of the
// state. In the first revision they are bytes.
func statusOf(info []byte, revision int) uint32 {
	switch at := nft.ConntrackState + 2; {
	case revision <= 1:
		return uint32(info[nft.ConntrackState+1])
	case len(info) >= at+2:
		return uint32(binary.NativeEndian.Uint16(info[at:]))
	}
	return ^uint32(0)
}
