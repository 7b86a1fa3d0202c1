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
	unproven       string      // a part of it that is not known to treat them alike, and may do anything
	perPacket      string      // why it may match one of them and not another
	replyDependent string      // what distinguishes packets before the first reply from later ones; only with [chainWalker.unreplied]
	answered       answer      // likewise: which of those it matches, going by the state of the connection
	neverMatches   bool        // matches none of them
	partial        *ruleEffect // if so, what it does to them before it comes to that
	consumes       string      // a part of it that counts packets, or how fast they come, whatever it matches further on
	untracks       bool        // takes packets from connection tracking
	alwaysMatches  bool        // matches all of them
	acts           bool        // does something to packets or connections that it matches, besides its verdict
	setsMark       bool        // leaves packets with a mark that may not be 0
	setsSecmark    bool        // sets the security mark of packets or connections
	markWrites     uint32      // bits of the packet's mark that it may change
	readsDiffering bool        // depends on bits of the packet's mark that may differ, see [chainWalker.findLater]
	tunnelOnly     bool        // no others than UDP packets to a tunnel's port
	separates      bool        // of a tunnel's packets, tells the first of a connection from those behind it
	verdict        string      // see [nft.RuleSummary]
	verdictMap     bool        // has one of several verdicts
	mayAccept      bool        // one of those is to accept
	mayDrop        bool        // one of those is to drop
	mayJump        bool        // likewise, to jump: packets may come back from there
	rejoins        bool        // those that do meet the first packet of their connection again: see [chainWalker.separate]
	targets        []string    // chains that it may jump to
	marks          markState   // behind it, of packets that it matches
	asks           []string    // ipsets that it asks, which only users change
	connReads      uint32      // bits of the connection's mark that it depends on
	connWrites     uint32      // and bits that it may change
	counts         bool        // has a counter that packets get to, whether the rest of it matches them or not
	logs           bool        // likewise: logs them, or counts them in an object or a set
}

// Names of fields that are known to differ between packets of one flow, or to change during it.
// Everything else that is not in [Allowlist] is refused by number.
var (
	perPacketMeta = map[int]string{unix.NFT_META_LEN: "meta length", unix.NFT_META_CPU: "meta cpu", unix.NFT_META_PRANDOM: "meta random",
		unix.NFT_META_PRIORITY: "meta priority", metaTime: "meta time", metaTime + 1: "meta day", metaTime + 2: "meta hour"}
	// Labels of a connection can be changed from outside during the flow.
	perPacketCT = map[int]string{unix.NFT_CT_LABELS: "ct label", unix.NFT_CT_EXPIRATION: "ct expiration", unix.NFT_CT_PKTS: "ct packets", unix.NFT_CT_BYTES: "ct bytes", unix.NFT_CT_AVGPKT: "ct avgpkt"}
	// Packets, helpers, timers or users change these bits of a connection's status during the flow, or may do so.
	perPacketStatus = map[uint32]string{1 << 2: "assured", 1 << 6: "seq-adjust", 1 << 9: "dying", 1 << 10: "fixed-timeout", 1 << 11: "template", 1 << 12: "untracked",
		1 << 13: "helper", 1 << 14: "offload", 1 << 15: "hw-offload"}
)

const (
	metaTime   = 30 // NFT_META_TIME_NS; day and hour follow
	verdictReg = 0  // NFT_REG_VERDICT

	// struct xt_conntrack_mtinfo1, flags
	trackOfState   = 1 << 0
	trackOfStatus  = 1 << 6
	trackExpire    = 1 << 7
	trackDirection = 1 << 12
	trackAlias     = 1 << 13 // it is written as the match state

	stateInvalid   = 1 << 0 // as stateNew
	stateRelated   = 1 << 2
	stateUntracked = 1 << 6
)

// loadedField is the packet field that was loaded last, for a later comparison.
type loadedField uint8

const (
	otherField loadedField = iota
	deviceName             // of the input or output device
	trackState
	trackStatus
	etherType // meta protocol, or that of the frame
	netProtocol
	transport
	targetPort
	bothPorts    // of a tunnel's packet, or a pod's packet to the tunnel's port
	outerAddress // see [exprEvaluator.asksAddress]
)

// fieldSizes are the bytes of those whose values are known. A comparison with fewer may match more.
var fieldSizes = map[loadedField]int{trackState: 4, trackStatus: 4, etherType: 2, netProtocol: 1, transport: 1, targetPort: 2}

// exprEvaluator evaluates the expressions of a rule in order.
type exprEvaluator struct {
	*chainWalker
	ruleEffect
	chain      chainName
	loaded     loadedField
	register   int // register that it was loaded into
	mask       uint32
	tcp, udp   bool              // the rule matches only TCP, or UDP
	toPort     bool              // likewise, only packets to the tunnel's port
	values     map[int]markValue // registers of which something is known
	field      *fieldValues      // the loaded field, if it is one that may differ
	pending    bool              // loaded, but not used yet
	protocolIn int               // register with the packet's protocol; 0: none is known to have it
	mayTake    bool              // packets of a tunnel may be taken not to be [Strangers]
	candidates Strangers         // of those, the rule asks for these
	err        error             // of asking the kernel
}

// read evaluates a rule for packets with some marks.
func (r *chainWalker) read(c chainName, marks markState, message []byte) (ruleEffect, error) {
	attrs, _, err := nft.FilterAttrs(message)
	if err != nil {
		return ruleEffect{}, err
	}
	rule, err := r.evaluate(c, marks, attrs, r.strangers != nil && c.outer)
	// A rule that accepts or drops what has an address may well be for tunnels, as may one that goes to a chain: so
	// firewalld finds its zones. One that leads to more rules, or that marks packets, is for those of others.
	switch {
	case err != nil || len(rule.candidates.Addresses)+len(rule.candidates.Devices) == 0:
	case len(rule.candidates.Addresses) == 0 || rule.verdict == "" && rule.acts || rule.verdict == "jump":
		r.strangers.add(rule.candidates)
	default:
		rule, err = r.evaluate(c, marks, attrs, false)
	}
	return rule.ruleEffect, err
}

// evaluate evaluates the attributes of a rule.
func (r *chainWalker) evaluate(c chainName, marks markState, attrs nlmsg.Attrs, mayTake bool) (exprEvaluator, error) {
	rule := exprEvaluator{chainWalker: r, chain: c, mayTake: mayTake, values: map[int]markValue{},
		ruleEffect: ruleEffect{alwaysMatches: true, unproven: provenRule.FirstUnknown(attrs), marks: marks}}
	elems, err := nl.ParseRouteAttr(nlmsg.ByNumber(attrs)[unix.NFTA_RULE_EXPRESSIONS])
	if err != nil {
		return rule, err
	}
	for _, e := range elems {
		name, data, err := nft.ExpressionData(e.Value)
		if err != nil {
			return rule, err
		}
		before := rule.ruleEffect
		rule.expression(name, data)
		if rule.err != nil {
			return rule, rule.err
		}
		if rule.neverMatches && rule.partial == nil {
			partial := before // a copy, so that those of other rules are not on the heap
			rule.partial, partial.alwaysMatches = &partial, false
		}
	}
	return rule, nil
}

// passLoaded records an expression that does not compare the field that was loaded.
func (r *exprEvaluator) passLoaded() {
	if r.pending {
		r.perPacket = r.field.name // it becomes part of a larger value
	}
	r.field, r.pending = nil, false
	r.useLoaded() // so does the state
}

// useLoaded records that the rule depends on what was loaded of the connection, in a way that is not followed.
func (r *exprEvaluator) useLoaded() {
	switch r.loaded {
	case trackState:
		r.dependsOnReply("ct state")
		if r.chain.outer {
			r.perPacket = "ct state" // the first packet of a connection has another one
		}
	case trackStatus:
		r.useStatus(r.mask)
	}
}

// forgetLoaded records a comparison with a field that is not the one loaded last.
func (r *exprEvaluator) forgetLoaded() {
	if r.field != nil {
		r.perPacket = r.field.name
	}
	r.useLoaded()
	r.loaded, r.field, r.pending, r.alwaysMatches = otherField, nil, false, false
}

// bitwise records what a bitwise operation does to the loaded field.
func (r *exprEvaluator) bitwise(data nlmsg.Map) {
	if r.field != nil {
		r.maskField(data)
		return
	}
	if r.maskMark(data) {
		return
	}
	mask, xor := data.DataValue(unix.NFTA_BITWISE_MASK), data.DataValue(unix.NFTA_BITWISE_XOR)
	masks := data.BigEndian32(bitwiseOp) <= 0 && len(mask) >= 4 && bytes.Count(xor, []byte{0}) == len(xor)
	if (r.loaded == trackState || r.loaded == trackStatus) && masks {
		r.mask &= binary.NativeEndian.Uint32(mask)
		return
	}
	r.useLoaded()
	r.derive(nil)
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
		r.acts = r.acts || key != unix.NFT_META_NFTRACE
		if key == unix.NFT_META_NFTRACE {
			r.logAt()
		}
	}
	if name := perPacketMeta[key]; name != "" && !written {
		r.perPacket = name
	} else if proven[key] == "" {
		r.unproven = cmp.Or(name, fmt.Sprintf("meta key %d", key))
	}
	switch {
	case written && key == unix.NFT_META_SECMARK:
		r.setsSecmark = true
		return
	case written && key == unix.NFT_META_MARK:
		r.setMark(r.values[data.BigEndian32(unix.NFTA_META_SREG)])
		return
	case written:
		return
	case key == unix.NFT_META_MARK:
		r.values[r.register] = r.marks.packet
	default:
		r.dropValues()
	}
	r.loaded = map[int]loadedField{unix.NFT_META_PROTOCOL: etherType, unix.NFT_META_NFPROTO: netProtocol, unix.NFT_META_L4PROTO: transport,
		unix.NFT_META_IIFNAME: deviceName, unix.NFT_META_OIFNAME: deviceName}[key]
	if key == unix.NFT_META_NFPROTO && r.chain.family == "bridge" {
		r.loaded = otherField // there it is that of bridges
	}
	if r.loaded == otherField && key != unix.NFT_META_MARK {
		r.alwaysMatches = false
	}
}

// goByTracking records that the rule goes by connection tracking, which may know nothing of a packet.
func (r *exprEvaluator) goByTracking() {
	r.tracks, r.onBridges = true, r.onBridges || r.chain.family == "bridge"
}

func (r *exprEvaluator) ct(data nlmsg.Map) {
	r.goByTracking()
	key := data.BigEndian32(unix.NFTA_CT_KEY)
	written := data.Has(unix.NFTA_CT_SREG)
	proven := provenTrack
	if written {
		proven = provenTrackWrites
	}
	if name := perPacketCT[key]; name != "" && !written {
		r.perPacket = name
	} else if proven[key] == "" {
		r.unproven = cmp.Or(name, fmt.Sprintf("ct key %d", key))
	} else if !written && r.chain.outer && readsSource(key, data.Bytes(unix.NFTA_CT_DIRECTION)) {
		r.perPacket = "ct " + proven[key]
	}
	r.acts, r.setsSecmark = r.acts || written, r.setsSecmark || written && key == unix.NFT_CT_SECMARK
	if !written && key != unix.NFT_CT_MARK {
		r.dropValues()
	}
	switch {
	case written && key == unix.NFT_CT_MARK:
		r.saveMark(r.values[data.BigEndian32(unix.NFTA_CT_SREG)])
	case written:
	case key == unix.NFT_CT_MARK:
		r.values[r.register], r.loaded = r.connMark(), otherField
		r.alwaysMatches = r.alwaysMatches && r.tracked() // where there is no connection, the rule does not match
	case key == unix.NFT_CT_STATE:
		r.loaded, r.mask = trackState, ^uint32(0)
	case key == unix.NFT_CT_STATUS:
		r.loaded, r.mask = trackStatus, ^uint32(0)
		r.alwaysMatches = r.alwaysMatches && r.tracked()
	default:
		if key == unix.NFT_CT_DIRECTION {
			r.dependsOnReply("ct direction")
		}
		r.derive(nil)
	}
}

// compare decides which packets a comparison matches.
func (r *exprEvaluator) compare(value []byte, equal bool) {
	last := r.loaded
	if len(value) < fieldSizes[last] {
		r.useLoaded()
		r.derive(nil)
		return
	}
	r.loaded = otherField
	switch last {
	case otherField:
		r.alwaysMatches = false
	case trackState:
		with := binary.NativeEndian.Uint32(value)
		r.matchStates(func(state uint32) bool { return r.mask&state == with == equal })
	case trackStatus:
		r.matchStatus(r.mask, binary.NativeEndian.Uint32(value), equal)
	case deviceName:
		r.compareDevice(value, equal)
	case etherType:
		r.neverMatches = r.neverMatches || equal == (int(binary.BigEndian.Uint16(value)) != r.Family.etherType())
	case netProtocol:
		r.neverMatches = r.neverMatches || equal == (value[0] != r.Family.Number())
	case transport:
		p := int(value[0])
		r.tcp, r.udp = r.tcp || equal && p == unix.IPPROTO_TCP, r.udp || equal && p == unix.IPPROTO_UDP
		if r.toOnePort() {
			r.neverMatches = r.neverMatches || equal != (p == r.Protocol)
			return
		}
		carried := p == unix.IPPROTO_UDP || p == unix.IPPROTO_TCP
		r.neverMatches = r.neverMatches || equal && !carried
		r.alwaysMatches = r.alwaysMatches && !equal && !carried
	case targetPort:
		toPort := equal && r.Port != 0 && binary.BigEndian.Uint16(value) == r.Port
		r.toPort = r.toPort || toPort
		r.neverMatches = r.neverMatches || equal && r.toOnePort() && !toPort
		r.alwaysMatches = r.alwaysMatches && equal
	case outerAddress:
		r.compareAddress(value, equal)
	case bothPorts:
		r.neverMatches = r.neverMatches || equal && len(value) == 4 && binary.BigEndian.Uint16(value[2:]) != r.Port
	}
}
