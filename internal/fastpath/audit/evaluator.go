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
	metaTime = 30 // NFT_META_TIME_NS; day and hour follow

	// struct xt_conntrack_mtinfo1, flags
	trackOfState   = 1 << 0
	trackOfStatus  = 1 << 6
	trackExpire    = 1 << 7
	trackDirection = 1 << 12
	trackAlias     = 1 << 13 // it is written as the match state
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
func (w *chainWalker) read(c chainName, marks markState, message []byte) (ruleEffect, error) {
	attrs, _, err := nft.FilterAttrs(message)
	if err != nil {
		return ruleEffect{}, err
	}
	rule, err := w.evaluate(c, marks, attrs, w.strangers != nil && c.outer)
	// A rule that accepts or drops what has an address may well be for tunnels, as may one that goes to a chain: so
	// firewalld finds its zones. One that leads to more rules, or that marks packets, is for those of others.
	switch {
	case err != nil || len(rule.candidates.Addresses)+len(rule.candidates.Devices) == 0:
	case len(rule.candidates.Addresses) == 0 || rule.verdict == "" && rule.acts || rule.verdict == "jump":
		w.strangers.add(rule.candidates)
	default:
		rule, err = w.evaluate(c, marks, attrs, false)
	}
	return rule.ruleEffect, err
}

// evaluate evaluates the attributes of a rule.
func (w *chainWalker) evaluate(c chainName, marks markState, attrs nlmsg.Attrs, mayTake bool) (exprEvaluator, error) {
	rule := exprEvaluator{chainWalker: w, chain: c, mayTake: mayTake, values: map[int]markValue{},
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
func (e *exprEvaluator) passLoaded() {
	if e.pending {
		e.perPacket = e.field.name // it becomes part of a larger value
	}
	e.field, e.pending = nil, false
	e.useLoaded() // so does the state
}

// useLoaded records that the rule depends on what was loaded of the connection, in a way that is not followed.
func (e *exprEvaluator) useLoaded() {
	switch e.loaded {
	case trackState:
		e.dependsOnReply("ct state")
		if e.chain.outer {
			e.perPacket = "ct state" // the first packet of a connection has another one
		}
	case trackStatus:
		e.useStatus(e.mask)
	}
}

// forgetLoaded records a comparison with a field that is not the one loaded last.
func (e *exprEvaluator) forgetLoaded() {
	if e.field != nil {
		e.perPacket = e.field.name
	}
	e.useLoaded()
	e.loaded, e.field, e.pending, e.alwaysMatches = otherField, nil, false, false
}

// bitwise records what a bitwise operation does to the loaded field.
func (e *exprEvaluator) bitwise(data nlmsg.Map) {
	if e.field != nil {
		e.maskField(data)
		return
	}
	if e.maskMark(data) {
		return
	}
	mask, xor := data.DataValue(unix.NFTA_BITWISE_MASK), data.DataValue(unix.NFTA_BITWISE_XOR)
	masks := data.BigEndian32(bitwiseOp) <= 0 && len(mask) >= 4 && bytes.Count(xor, []byte{0}) == len(xor)
	if (e.loaded == trackState || e.loaded == trackStatus) && masks {
		e.mask &= binary.NativeEndian.Uint32(mask)
		return
	}
	e.useLoaded()
	e.derive(nil)
}

// dependsOnReply records that the rule may distinguish packets before the first reply from later
// ones.
func (e *exprEvaluator) dependsOnReply(by string) {
	if e.unreplied {
		e.replyDependent = by
	}
}

func (e *exprEvaluator) meta(data nlmsg.Map) {
	key := data.BigEndian32(unix.NFTA_META_KEY)
	written, proven := data.Has(unix.NFTA_META_SREG), provenMeta
	if written {
		proven = provenMetaWrites
		e.acts = e.acts || key != unix.NFT_META_NFTRACE
		if key == unix.NFT_META_NFTRACE {
			e.logAt()
		}
	}
	if name := perPacketMeta[key]; name != "" && !written {
		e.perPacket = name
	} else if proven[key] == "" {
		e.unproven = cmp.Or(name, fmt.Sprintf("meta key %d", key))
	}
	switch {
	case written && key == unix.NFT_META_SECMARK:
		e.setsSecmark = true
		return
	case written && key == unix.NFT_META_MARK:
		e.setMark(e.values[data.BigEndian32(unix.NFTA_META_SREG)])
		return
	case written:
		return
	case key == unix.NFT_META_MARK:
		e.values[e.register] = e.marks.packet
	default:
		e.dropValues()
	}
	e.loaded = map[int]loadedField{unix.NFT_META_PROTOCOL: etherType, unix.NFT_META_NFPROTO: netProtocol, unix.NFT_META_L4PROTO: transport,
		unix.NFT_META_IIFNAME: deviceName, unix.NFT_META_OIFNAME: deviceName}[key]
	if key == unix.NFT_META_NFPROTO && e.chain.family == "bridge" {
		e.loaded = otherField // there it is that of bridges
	}
	if e.loaded == otherField && key != unix.NFT_META_MARK {
		e.alwaysMatches = false
	}
}

// goByTracking records that the rule goes by connection tracking, which may know nothing of a packet.
func (e *exprEvaluator) goByTracking() {
	e.tracks, e.onBridges = true, e.onBridges || e.chain.family == "bridge"
}

func (e *exprEvaluator) ct(data nlmsg.Map) {
	e.goByTracking()
	key := data.BigEndian32(unix.NFTA_CT_KEY)
	written := data.Has(unix.NFTA_CT_SREG)
	proven := provenTrack
	if written {
		proven = provenTrackWrites
	}
	if name := perPacketCT[key]; name != "" && !written {
		e.perPacket = name
	} else if proven[key] == "" {
		e.unproven = cmp.Or(name, fmt.Sprintf("ct key %d", key))
	} else if !written && e.chain.outer && readsSource(key, data.Bytes(unix.NFTA_CT_DIRECTION)) {
		e.perPacket = "ct " + proven[key]
	}
	e.acts, e.setsSecmark = e.acts || written, e.setsSecmark || written && key == unix.NFT_CT_SECMARK
	if !written && key != unix.NFT_CT_MARK {
		e.dropValues()
	}
	switch {
	case written && key == unix.NFT_CT_MARK:
		e.saveMark(e.values[data.BigEndian32(unix.NFTA_CT_SREG)])
	case written:
	case key == unix.NFT_CT_MARK:
		e.values[e.register], e.loaded = e.connMark(), otherField
		e.alwaysMatches = e.alwaysMatches && e.tracked() // where there is no connection, the rule does not match
	case key == unix.NFT_CT_STATE:
		e.loaded, e.mask = trackState, ^uint32(0)
	case key == unix.NFT_CT_STATUS:
		e.loaded, e.mask = trackStatus, ^uint32(0)
		e.alwaysMatches = e.alwaysMatches && e.tracked()
	default:
		if key == unix.NFT_CT_DIRECTION {
			e.dependsOnReply("ct direction")
		}
		e.derive(nil)
	}
}

// compare decides which packets a comparison matches.
func (e *exprEvaluator) compare(value []byte, equal bool) {
	last := e.loaded
	if len(value) < fieldSizes[last] {
		e.useLoaded()
		e.derive(nil)
		return
	}
	e.loaded = otherField
	switch last {
	case otherField:
		e.alwaysMatches = false
	case trackState:
		with := binary.NativeEndian.Uint32(value)
		e.matchStates(func(state uint32) bool { return e.mask&state == with == equal })
	case trackStatus:
		e.matchStatus(e.mask, binary.NativeEndian.Uint32(value), equal)
	case deviceName:
		e.compareDevice(value, equal)
	case etherType:
		e.neverMatches = e.neverMatches || equal == (int(binary.BigEndian.Uint16(value)) != e.Family.etherType())
	case netProtocol:
		e.neverMatches = e.neverMatches || equal == (value[0] != e.Family.Number())
	case transport:
		p := int(value[0])
		e.tcp, e.udp = e.tcp || equal && p == unix.IPPROTO_TCP, e.udp || equal && p == unix.IPPROTO_UDP
		if e.toOnePort() {
			e.neverMatches = e.neverMatches || equal != (p == e.Protocol)
			return
		}
		carried := p == unix.IPPROTO_UDP || p == unix.IPPROTO_TCP
		e.neverMatches = e.neverMatches || equal && !carried
		e.alwaysMatches = e.alwaysMatches && !equal && !carried
	case targetPort:
		toPort := equal && e.Port != 0 && binary.BigEndian.Uint16(value) == e.Port
		e.toPort = e.toPort || toPort
		e.neverMatches = e.neverMatches || equal && e.toOnePort() && !toPort
		e.alwaysMatches = e.alwaysMatches && equal
	case outerAddress:
		e.compareAddress(value, equal)
	case bothPorts:
		e.neverMatches = e.neverMatches || equal && len(value) == 4 && binary.BigEndian.Uint16(value[2:]) != e.Port
	}
}
