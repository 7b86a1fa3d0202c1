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
	switch latest, proven := provenTargets[target]; {
	case !proven:
		r.unproven = "target " + target
	case revision > latest:
		r.unproven = fmt.Sprintf("target %s of revision %d", target, revision)
	}
	r.acts = r.acts || !loggingTargets[target] && target != "REJECT"
	if loggingTargets[target] {
		r.logAt()
	}
	if trackingTargets[target] {
		r.goByTracking()
	}
	switch {
	case target == "SECMARK" || target == "CONNSECMARK":
		r.setsSecmark = true
	case target == "MARK" && revision == 2:
		r.targetMark(info)
	case target == "MARK":
		r.setMark(markValue{})
	case target == "CONNMARK":
		r.targetConnmark(revision, info)
	case target == "REJECT":
		r.decide("drop")
	case target == "NOTRACK" || target == "CT" && len(info) > 0 && info[0]&1 != 0:
		r.untrack()
	}
}

func (r *exprEvaluator) match(data nlmsg.Map) {
	name, revision, info := data.Text(1), data.BigEndian32(unix.NFTA_MATCH_REV), data.Bytes(3) // NFTA_MATCH_NAME, NFTA_MATCH_INFO
	latest, proven := provenMatches[name]
	known, perPacket := perPacketMatches[name]
	switch {
	case !proven && !perPacket:
		r.unproven = "match " + name
	case revision > max(latest, known):
		r.unproven = fmt.Sprintf("match %s of revision %d", name, revision)
	case perPacket && name != "set": // see below
		r.perPacket = "match " + name
		if statefulMatches[name] {
			r.consume(r.perPacket)
		}
	}
	if trackingMatches[name] {
		r.goByTracking()
	}
	switch name {
	case "set":
		r.alwaysMatches = false
		r.err = r.matchIPSet(info, revision)
		return
	case "comment":
		return
	case "mark":
		if revision == 1 {
			r.matchMarkOf(r.marks.packet, info)
			return
		}
	case "connmark":
		r.alwaysMatches = r.alwaysMatches && r.tracked()
		r.matchMarkOf(r.connMark(), info)
		return
	case "nfacct":
		if r.neverMatches {
			return
		}
		r.logAt()
		limited, err := hasQuota(unix.ByteSliceToString(info))
		r.err = err
		if err == nil && !limited {
			return // it only counts
		}
		r.perPacket = "match nfacct, with a quota"
		r.consume(r.perPacket)
		return
	case "icmp", "icmp6", "sctp", "dccp", "ah", "esp":
		r.neverMatches = true
	case "rpfilter":
		if len(info) == 0 || info[0]&rpfilterValidMark != 0 {
			r.readMark(r.marks.packet)
		}
	case "mac":
		if r.chain.outer {
			r.perPacket = "match mac"
		}
	case "udp":
		r.matchUDP(info)
	case "multiport":
		r.matchMultiport(info, revision)
	case "tcp":
		r.neverMatches = r.neverMatches || r.toOnePort()
		r.matchTCP(info)
	case "conntrack":
		if r.matchConntrack(info, revision) {
			return
		}
	case "state":
		if len(info) >= 4 {
			with := binary.NativeEndian.Uint32(info)
			r.matchStates(func(state uint32) bool { return with&xtState(state) != 0 })
			return
		}
	}
	r.alwaysMatches = false
}

// matchConntrack evaluates iptables' match conntrack; true: it asks for nothing but the state and the status.
func (r *exprEvaluator) matchConntrack(info []byte, revision int) (evaluated bool) {
	if len(info) < nft.ConntrackState+2 {
		return false
	}
	flags := binary.NativeEndian.Uint16(info[nft.ConntrackFlags:])
	if r.chain.outer && flags&trackSourcePorts != 0 {
		r.perPacket = "ct source port"
	}
	if flags&trackExpire != 0 {
		r.perPacket = "ctexpire"
	}
	if flags&trackDirection != 0 {
		r.dependsOnReply("ct direction")
	}
	if flags&trackOfState != 0 {
		r.matchConntrackState(info, revision)
	}
	switch status := statusOf(info, revision); {
	case flags&trackOfStatus == 0:
	case flags&trackOfState != 0 && !r.tracked(): // a packet without a connection may match by its state alone
		r.useStatus(status)
	default:
		r.alwaysMatches = r.alwaysMatches && r.tracked()
		r.matchStatus(status, 0, binary.NativeEndian.Uint16(info[nft.ConntrackInvert:])&trackOfStatus != 0)
	}
	return flags&^(trackOfState|trackOfStatus|trackAlias) == 0
}

// matchConntrackState evaluates the states of the match.
func (r *exprEvaluator) matchConntrackState(info []byte, revision int) {
	inverted, states := info[nft.ConntrackInvert]&1 != 0, uint32(info[nft.ConntrackState])
	if revision >= 2 {
		states = uint32(binary.NativeEndian.Uint16(info[nft.ConntrackState:]))
	}
	// The state of a translated connection says so.
	none, every := 0, 0
	translations := []uint32{0, xtSourceNAT, xtDestinationNAT, xtSourceNAT | xtDestinationNAT}
	if r.unreplied {
		translations = translations[:1] // others are not carried
	}
	if r.direct && r.chain.outer && !r.chain.untranslated {
		translations = translations[:2]
	}
	for _, translated := range translations {
		at := *r
		at.alwaysMatches, at.neverMatches = true, false
		at.matchStates(func(state uint32) bool { return states&(xtState(state)|translated) != 0 != inverted })
		r.replyDependent, r.answered, r.separates = at.replyDependent, at.answered, at.separates
		if at.neverMatches {
			none++
		}
		if at.alwaysMatches {
			every++
		}
	}
	r.neverMatches = r.neverMatches || none == len(translations)
	r.alwaysMatches = r.alwaysMatches && every == len(translations)
	if none < len(translations) && every < len(translations) {
		r.useStatus(states / xtSourceNAT % 4 * statusSourceNAT)
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
