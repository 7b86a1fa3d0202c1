package audit

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ruleEffect is what a rule does to the packets of an established flow.
type ruleEffect struct {
	perPacket      string   // what makes it treat them differently
	replyDependent string   // what distinguishes packets before the first reply from later ones; only with [chainWalker.unreplied]
	neverMatches   bool     // matches none of them
	alwaysMatches  bool     // matches all of them
	setsMark       bool     // sets packet marks
	tunnelOnly     bool     // matches only packets to a tunnel's port
	verdict        string   // see [RuleSummary]
	targets        []string // chains that it may jump to
}

// Names of fields that are known to differ between packets of one flow, or to change during it.
// Everything else that is not in [Allowlist] is refused by number.
var (
	perPacketMeta = map[int]string{unix.NFT_META_LEN: "meta length", unix.NFT_META_CPU: "meta cpu", unix.NFT_META_PRANDOM: "meta random",
		unix.NFT_META_PRIORITY: "meta priority", metaTime: "meta time", metaTime + 1: "meta day", metaTime + 2: "meta hour"}
	// Marks and labels of a connection can be changed from outside during the flow.
	perPacketCT = map[int]string{unix.NFT_CT_MARK: "ct mark", unix.NFT_CT_LABELS: "ct label", unix.NFT_CT_EXPIRATION: "ct expiration", unix.NFT_CT_PKTS: "ct packets", unix.NFT_CT_BYTES: "ct bytes", unix.NFT_CT_AVGPKT: "ct avgpkt"}
	// replyCT distinguishes replies from requests, or connections with a reply from those without.
	replyCT = map[int]string{unix.NFT_CT_STATUS: "ct status", unix.NFT_CT_DIRECTION: "ct direction"}
)

const (
	metaTime   = 30 // NFT_META_TIME_NS; day and hour follow
	verdictReg = 0  // NFT_REG_VERDICT

	// struct xt_conntrack_mtinfo1, flags
	trackStatus    = 1 << 6
	trackExpire    = 1 << 7
	trackDirection = 1 << 12

	stateRelated   = 1 << 2 // as stateNew
	statusLasting  = 0x21bb // IPS_*: bits that a connection has from its first reply on, or never
	stateUntracked = 1 << 6
)

// loadedField is the packet field that was loaded last, for a later comparison.
type loadedField uint8

const (
	otherField loadedField = iota
	trackState
	trackStatusBits
	etherType // meta protocol, or that of the frame
	netProtocol
	transport
	targetPort
)

// exprEvaluator evaluates the expressions of a rule in order.
type exprEvaluator struct {
	*chainWalker
	ruleEffect
	chain    chainName
	loaded   loadedField
	register int // register that it was loaded into
	mask     uint32
	tcp      bool         // the rule matches only TCP
	field    *fieldValues // the loaded field, if it is one that may differ
	pending  bool         // loaded, but not used yet
}

// read evaluates a rule.
func (r *chainWalker) read(c chainName, message []byte) (ruleEffect, error) {
	attrs, _, err := nft.FilterAttrs(message)
	if err != nil {
		return ruleEffect{}, err
	}
	rule := exprEvaluator{chainWalker: r, chain: c, ruleEffect: ruleEffect{alwaysMatches: true, perPacket: provenRule.FirstUnknown(attrs)}}
	elems, err := nl.ParseRouteAttr(nlmsg.ByNumber(attrs)[unix.NFTA_RULE_EXPRESSIONS])
	if err != nil {
		return ruleEffect{}, err
	}
	for _, e := range elems {
		name, data, err := nft.ExpressionData(e.Value)
		if err == nil {
			err = rule.expression(name, data)
		}
		if err != nil {
			return ruleEffect{}, err
		}
	}
	return rule.ruleEffect, nil
}

func (r *exprEvaluator) expression(name string, data nlmsg.Map) error {
	if why := unprovenExpression(name, data); why != "" {
		r.perPacket = why
	}
	from, reads := sourceOf(name, data)
	if reads && from != r.register {
		r.forgetLoaded() // this expression reads the field that was loaded before
	}
	if !reads {
		if r.pending {
			r.perPacket = r.field.name // it becomes part of a larger value
		}
		r.field, r.pending = nil, false
		if r.loaded == trackState {
			r.dependsOnReply("ct state") // so does the state
		}
	}
	if r.loaded == trackStatusBits && name != "bitwise" {
		r.perPacket = "ct status"
	}
	if into, ok := targetOf(name, data); ok {
		r.register = into
	}
	switch name {
	case "immediate":
		if value, err := nl.ParseRouteAttr(data[unix.NFTA_IMMEDIATE_DATA]); err == nil && data.BigEndian32(unix.NFTA_IMMEDIATE_DREG) == verdictReg {
			var to string
			known := false
			if r.verdict, to, known = verdictOf(nlmsg.ByNumber(value)[unix.NFTA_DATA_VERDICT]); to != "" {
				r.targets = append(r.targets, to)
			}
			if !known {
				r.perPacket = "a verdict that is not known"
			}
		}
	case "notrack", "reject":
		r.verdict = map[string]string{"notrack": "notrack", "reject": "drop"}[name]
	case "meta":
		r.meta(data)
	case "ct":
		r.ct(data)
	case "payload":
		r.payload(data)
	case "bitwise":
		r.bitwise(data)
	case "cmp":
		value, op := data.DataValue(unix.NFTA_CMP_DATA), data.BigEndian32(unix.NFTA_CMP_OP)
		switch {
		case r.field != nil:
			r.compareField(value, op)
		case op == unix.NFT_CMP_EQ || op == unix.NFT_CMP_NEQ:
			r.compare(value, op == unix.NFT_CMP_EQ)
		default: // greater or less
			if r.loaded == trackState {
				r.dependsOnReply("ct state")
			}
			r.loaded, r.alwaysMatches = otherField, false
		}
	case "rt":
		if key := data.BigEndian32(unix.NFTA_RT_KEY); provenRoute[key] == "" {
			r.perPacket = cmp.Or(map[int]string{unix.NFT_RT_TCPMSS: "rt mtu"}[key], fmt.Sprintf("rt key %d", key))
		}
		r.loaded, r.alwaysMatches = otherField, false
	case "range", "fib", "hash", "xfrm", "osf", "byteorder":
		r.loaded, r.alwaysMatches = otherField, false
	case "lookup":
		return r.lookup(data)
	case "objref":
		if kind := data.BigEndian32(unix.NFTA_OBJREF_IMM_TYPE); provenObjects[kind] == "" {
			r.perPacket = "named object of type " + fmt.Sprint(kind)
		}
	case "exthdr":
		r.loaded, r.alwaysMatches = otherField, false
		// IPv4 packets of the fast path have no options, and packets of a tunnel have no TCP
		// options.
		switch option := data.BigEndian32(unix.NFTA_EXTHDR_OP) == unix.NFT_EXTHDR_OP_TCPOPT; {
		case option && r.chain.outer:
		case !data.Has(unix.NFTA_EXTHDR_DREG):
			r.perPacket = "writes packets"
		case option:
			r.perPacket = "tcp option"
		}
	case "match":
		r.match(data)
	case "target":
		r.target(data)
	}
	return nil
}

// forgetLoaded records a comparison with a field that is not the one loaded last.
func (r *exprEvaluator) forgetLoaded() {
	if r.field != nil {
		r.perPacket = r.field.name
	}
	if r.loaded == trackState {
		r.dependsOnReply("ct state")
	}
	if r.loaded == trackStatusBits {
		r.perPacket = "ct status"
	}
	r.loaded, r.field, r.pending, r.alwaysMatches = otherField, nil, false, false
}

// bitwise records what a bitwise operation does to the loaded field.
func (r *exprEvaluator) bitwise(data nlmsg.Map) {
	if r.field != nil {
		r.maskField(data)
		return
	}
	mask, xor := data.DataValue(unix.NFTA_BITWISE_MASK), data.DataValue(unix.NFTA_BITWISE_XOR)
	masks := data.BigEndian32(bitwiseOp) <= 0 && len(mask) >= 4 && bytes.Count(xor, []byte{0}) == len(xor)
	if r.loaded == trackState && masks {
		r.mask &= binary.NativeEndian.Uint32(mask)
		return
	}
	switch {
	case r.loaded == trackState:
		r.dependsOnReply("ct state")
	case r.loaded == trackStatusBits && (!masks || binary.NativeEndian.Uint32(mask)&^statusLasting != 0):
		r.perPacket = "ct status"
	}
	r.loaded, r.alwaysMatches = otherField, false
}

// dependsOnReply records that the rule may distinguish packets before the first reply from later
// ones.
func (r *exprEvaluator) dependsOnReply(by string) {
	if r.unreplied {
		r.replyDependent = by
	}
}

func (r *exprEvaluator) meta(data nlmsg.Map) {
	key := data.BigEndian32(unix.NFTA_META_KEY)
	written, proven := data.Has(unix.NFTA_META_SREG), provenMeta
	if written {
		proven = provenMetaWrites
	}
	if proven[key] == "" {
		r.perPacket = cmp.Or(perPacketMeta[key], fmt.Sprintf("meta key %d", key))
	}
	if written {
		r.setsMark = r.setsMark || key == unix.NFT_META_MARK
		return
	}
	r.loaded = map[int]loadedField{unix.NFT_META_PROTOCOL: etherType, unix.NFT_META_NFPROTO: netProtocol, unix.NFT_META_L4PROTO: transport}[key]
	if r.loaded == otherField {
		r.alwaysMatches = false
	}
}

func (r *exprEvaluator) ct(data nlmsg.Map) {
	key := data.BigEndian32(unix.NFTA_CT_KEY)
	written := data.Has(unix.NFTA_CT_SREG)
	proven := provenTrack
	if written {
		proven = provenTrackWrites
	}
	if proven[key] == "" {
		r.perPacket = cmp.Or(perPacketCT[key], fmt.Sprintf("ct key %d", key))
	}
	switch {
	case written:
	case key == unix.NFT_CT_STATE && !r.stateless:
		r.loaded, r.mask = trackState, ^uint32(0)
	default:
		if name := replyCT[key]; name != "" {
			r.dependsOnReply(name)
		}
		if r.loaded, r.alwaysMatches = otherField, false; key == unix.NFT_CT_STATUS {
			r.loaded = trackStatusBits
		}
	}
}

// payload evaluates a load of header bytes. It knows the fields of IPv4, TCP and UDP that are equal
// for all packets of a flow, or whose values in packets of the fast path are known. Rules for IPv4
// do not read IPv6 headers.
func (r *exprEvaluator) payload(data nlmsg.Map) {
	at, size := data.BigEndian32(unix.NFTA_PAYLOAD_OFFSET), data.BigEndian32(unix.NFTA_PAYLOAD_LEN)
	if data.Has(unix.NFTA_PAYLOAD_SREG) {
		r.perPacket = "writes packets"
		return
	}
	r.loaded = otherField
	shared := false
	switch data.BigEndian32(unix.NFTA_PAYLOAD_BASE) {
	case unix.NFT_PAYLOAD_LL_HEADER:
		shared = true
		if at == 12 && size == 2 {
			r.loaded = etherType
		}
	case unix.NFT_PAYLOAD_NETWORK_HEADER:
		// Version, protocol and addresses.
		shared = at == 0 && size == 1 || at == 9 && size == 1 || at >= 12 && at+size <= 20
		switch {
		case at == 9 && size == 1:
			r.loaded = transport
		case at == fragment && (size == 1 || size == 2):
			r.field = carriedFragment(size)
		}
	case unix.NFT_PAYLOAD_TRANSPORT_HEADER:
		shared = at+size <= 4 // ports
		switch {
		case at == 2 && size == 2:
			r.loaded = targetPort
		case at == flagsTCP && size == 1 && r.tcp:
			r.field = carriedFlags()
		}
	}
	if r.pending = r.field != nil; !shared && !r.pending {
		r.perPacket = fmt.Sprintf("bytes %d to %d of a header", at, at+size-1)
	}
	if r.loaded != transport && r.loaded != etherType && !(r.loaded == targetPort && r.chain.outer) {
		r.alwaysMatches = false
	}
}

// compare decides which packets a comparison matches.
func (r *exprEvaluator) compare(value []byte, equal bool) {
	last := r.loaded
	r.loaded = otherField
	number := func(size int) int {
		if len(value) < size {
			return -1
		}
		return int(binary.BigEndian.Uint16(append(make([]byte, 2-size), value[:size]...)))
	}
	switch last {
	case otherField:
		r.alwaysMatches = false
	case trackState:
		if len(value) >= 4 {
			with := binary.NativeEndian.Uint32(value)
			r.matchStates(func(state uint32) bool { return r.mask&state == with == equal })
		}
	case etherType:
		r.neverMatches = r.neverMatches || equal == (number(2) != unix.ETH_P_IP)
	case netProtocol:
		r.neverMatches = r.neverMatches || equal == (number(1) != unix.NFPROTO_IPV4)
	case transport:
		p := number(1)
		r.tcp = r.tcp || equal && p == unix.IPPROTO_TCP
		if r.chain.outer {
			r.neverMatches = r.neverMatches || equal != (p == unix.IPPROTO_UDP)
			return
		}
		carried := p == unix.IPPROTO_UDP || p == unix.IPPROTO_TCP
		r.neverMatches = r.neverMatches || equal && !carried
		r.alwaysMatches = r.alwaysMatches && !equal && !carried
	case targetPort:
		r.tunnelOnly = equal && number(2) == int(r.port)
		r.neverMatches = r.neverMatches || equal && r.chain.outer && !r.tunnelOnly
		r.alwaysMatches = r.alwaysMatches && equal
	}
}

// states are the connection states that packets may have. Packets of a tunnel get no replies,
// because packets in the other direction use other ports. So each counts as the first of its
// connection, unless both ports happen to be equal, or the connection is not tracked.
func (r *exprEvaluator) states() []uint32 {
	if r.chain.outer {
		return []uint32{nft.StateNew, nft.StateEstablished, stateUntracked}
	}
	if r.unreplied {
		return []uint32{nft.StateNew}
	}
	return []uint32{nft.StateEstablished}
}

// matchStates evaluates a rule that matches some connection states. A connection without a reply
// may pass through several of them.
func (r *exprEvaluator) matchStates(passes func(state uint32) bool) {
	if r.unreplied && !r.chain.outer {
		if some, all := matchCounts([]uint32{nft.StateNew, stateRelated, nft.StateEstablished}, passes); some && !all {
			r.dependsOnReply("ct state")
			r.alwaysMatches = false
			return
		}
	}
	some, all := matchCounts(r.states(), passes)
	r.neverMatches, r.alwaysMatches = r.neverMatches || !some, r.alwaysMatches && all
}
